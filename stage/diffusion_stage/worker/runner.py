"""Runs the pipeline: calls for one request or several, or single steps of all that run."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.errors import (
    InternalError,
    InvalidArgumentError,
    RequestError,
    ResourceExhaustedError,
)
from diffusion_stage.pipelines import inspection, loader
from diffusion_stage.pipelines.source import ModelSource
from diffusion_stage.pipelines.steps import protocol
from diffusion_stage.pipelines.steps.state import StepRequestState
from diffusion_stage.request import DiffusionRequest, InputTensor
from diffusion_stage.wire import tensors
from diffusion_stage.worker.model_output import ModelOutput, fields_of
from diffusion_stage.worker.steps import StepOutput, StepRunner

OUTPUT_TYPES = {"image": "np", "tensor": "pt", "latent": "latent"}
OnStep = Callable[[int, int], None]
"""Called after each step with the steps done and all steps; may raise `CancelledError`."""


class DiffusionModelRunner:
    """Owns the pipeline of one device. One call at a time, always from the same thread."""

    def __init__(
        self, device: torch.device, dtype: torch.dtype, *, is_streaming: bool = False
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._is_streaming = is_streaming
        self._pipeline: Any = None
        self._batching: Any = None
        self._steps: StepRunner | None = None

    def load_model(self, source: ModelSource, *, pipeline_class: str | None) -> Capabilities:
        """Load the pipeline. Raises as `loader.load`."""
        self._pipeline = loader.load(
            source, device=self._device, dtype=self._dtype, pipeline_class=pipeline_class
        )
        self._batching = protocol.find(self._pipeline)
        self._capabilities = inspection.capabilities(self._pipeline, self._batching)
        if isinstance(self._batching, protocol.SupportsStepExecution):
            self._steps = StepRunner(
                self._batching, self._state, self._classify, is_streaming=self._is_streaming
            )
        return self._capabilities

    def release(self) -> None:
        """Drop the model, so that its memory can be used again."""
        self._pipeline = self._batching = self._steps = None

    def execute_model(self, request: DiffusionRequest, on_step: OnStep) -> ModelOutput:
        """Run one request from start to end.

        Raises a `RequestError`: `InvalidArgumentError` for what the pipeline itself refuses before
        its first step, `ResourceExhaustedError` when device memory runs out, `CancelledError` from
        `on_step`, `InternalError` for everything else. The pipeline stays usable.
        """
        has_begun = False

        def on_first(step: int, total_steps: int) -> None:
            nonlocal has_begun
            has_begun = True
            on_step(step, total_steps)

        start = time.perf_counter()
        try:
            with torch.no_grad():
                returned = self._pipeline(**self._arguments(request, _callback(on_first)))
            return ModelOutput(fields_of(returned), request.output == "image", _ms_since(start))
        except Exception as error:
            raise self._classify(error, has_begun) from error

    def execute_model_batch(
        self, requests: Sequence[DiffusionRequest], on_step: OnStep
    ) -> list[ModelOutput]:
        """Run several requests in one call; the outputs come in their order.

        Raises as `execute_model`, for all of them: whoever calls runs each alone then.
        """
        start = time.perf_counter()
        shared: dict[str, Any] = {}
        if self._capabilities.has_step_callback:
            shared["callback_on_step_end"] = _callback(on_step)
        try:
            with torch.no_grad():
                called = self._batching.call_batch([self._state(r) for r in requests], shared)
            took_ms = _ms_since(start)
            return [
                ModelOutput(fields_of(fields), request.output == "image", took_ms)
                for request, fields in zip(requests, called, strict=True)
            ]
        except Exception as error:
            raise self._classify(error, True) from error

    def execute_stepwise(
        self, new: Sequence[DiffusionRequest], cached: Sequence[str], finished: Sequence[str]
    ) -> list[StepOutput]:
        """One step of `new` and `cached`. An error comes as the output of its request."""
        assert self._steps is not None
        return self._steps.execute(new, cached, finished)

    def _state(self, request: DiffusionRequest) -> StepRequestState:
        arguments = {**request.params, **{i.spec.name: self._input(i) for i in request.inputs}}
        # On the CPU whatever the device: the same seed then draws the same noise everywhere.
        generator = torch.Generator("cpu").manual_seed(request.seed)
        if self._capabilities.has_output_type:
            arguments["output_type"] = OUTPUT_TYPES[request.output]
        return StepRequestState(request, arguments, generator)

    def _arguments(self, request: DiffusionRequest, step_end: Any) -> dict[str, Any]:
        state = self._state(request)
        arguments = state.arguments | {"generator": state.generator}
        if self._capabilities.has_step_callback:
            arguments["callback_on_step_end"] = step_end
        return arguments

    def _input(self, given: InputTensor) -> Any:
        if given.spec.kind == "image":
            pictures = [Image.fromarray(picture) for picture in _images(given)]
            return pictures[0] if len(pictures) == 1 else pictures
        tensor = torch.from_numpy(tensors.array(given.spec, given.data).copy()).to(self._device)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _classify(self, error: Exception, has_begun: bool) -> RequestError:
        if isinstance(error, RequestError):
            return error
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, torch.OutOfMemoryError):
            torch.accelerator.empty_cache()
            return ResourceExhaustedError(f"the device's memory is full: {error}")
        if isinstance(error, (ValueError, TypeError)) and not has_begun:
            words = set(str(error).replace("`", " ").split())
            named = [name for name in self._capabilities.parameters if name in words]
            return InvalidArgumentError(
                f"{self._capabilities.pipeline}: {text}", field=named[0] if named else None
            )
        return InternalError(text)


def _callback(on_step: OnStep) -> Any:
    """`on_step` as diffusers calls it."""

    def step_end(
        pipeline: Any, step: int, _timestep: Any, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        on_step(step + 1, max(step + 1, pipeline.num_timesteps))
        return kwargs

    return step_end


def _ms_since(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def _images(given: InputTensor) -> Any:
    pictures = tensors.array(given.spec, given.data)
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[-1] not in (1, 3, 4):
        shape = tuple(pictures.shape)
        raise InvalidArgumentError(
            f"{given.spec.name} is {pictures.dtype} {shape}; "
            "allowed: uint8 [n, height, width, 1|3|4]",
            field=given.spec.name,
        )
    return pictures.squeeze(-1) if pictures.shape[-1] == 1 else pictures
