"""Runs the pipeline: one request's call, with progress and abort between steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass
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
from diffusion_stage.request import DiffusionRequest, InputTensor
from diffusion_stage.wire import tensors

OUTPUT_TYPES = {"image": "np", "tensor": "pt", "latent": "latent"}
OnStep = Callable[[int, int], None]
"""Called after each step with the steps done and all steps; may raise `CancelledError`."""


@dataclass(slots=True)
class ModelOutput:
    """What a forward left on the device, named, with how long it took in milliseconds."""

    tensors: dict[str, Any]
    is_image: bool
    forward_ms: float


class DiffusionModelRunner:
    """Owns the pipeline of one device. One call at a time, always from the same thread."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self._dtype = dtype
        self._pipeline: Any = None

    def load_model(self, source: ModelSource, *, pipeline_class: str | None) -> Capabilities:
        """Load the pipeline. Raises as `loader.load`."""
        self._pipeline = loader.load(
            source, device=self._device, dtype=self._dtype, pipeline_class=pipeline_class
        )
        self._capabilities = inspection.capabilities(self._pipeline)
        return self._capabilities

    def release(self) -> None:
        """Drop the model, so that its memory can be used again."""
        self._pipeline = None

    def execute_model(self, request: DiffusionRequest, on_step: OnStep) -> ModelOutput:
        """Run one request from start to end.

        Raises a `RequestError`: `InvalidArgumentError` for what the pipeline itself refuses before
        its first step, `ResourceExhaustedError` when device memory runs out, `CancelledError` from
        `on_step`, `InternalError` for everything else. The pipeline stays usable.
        """
        has_begun = False

        def step_end(
            pipeline: Any, step: int, _timestep: Any, kwargs: dict[str, Any]
        ) -> dict[str, Any]:
            nonlocal has_begun
            has_begun = True
            on_step(step + 1, max(step + 1, pipeline.num_timesteps))
            return kwargs

        start = time.perf_counter()
        try:
            with torch.no_grad():
                returned = self._pipeline(**self._arguments(request, step_end))
        except RequestError:
            raise
        except Exception as error:
            raise self._classify(error, has_begun=has_begun) from error
        forward_ms = 1000 * (time.perf_counter() - start)
        return ModelOutput(_fields(returned), request.output == "image", forward_ms)

    def _arguments(self, request: DiffusionRequest, step_end: Any) -> dict[str, Any]:
        arguments = {**request.params, **{i.spec.name: self._input(i) for i in request.inputs}}
        # On the CPU whatever the device: the same seed then draws the same noise everywhere.
        arguments["generator"] = torch.Generator("cpu").manual_seed(request.seed)
        if self._capabilities.has_output_type:
            arguments["output_type"] = OUTPUT_TYPES[request.output]
        if self._capabilities.has_step_callback:
            arguments["callback_on_step_end"] = step_end
        return arguments

    def _input(self, given: InputTensor) -> Any:
        if given.spec.kind == "image":
            pictures = [Image.fromarray(picture) for picture in _images(given)]
            return pictures[0] if len(pictures) == 1 else pictures
        tensor = torch.from_numpy(tensors.array(given.spec, given.data).copy()).to(self._device)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _classify(self, error: Exception, *, has_begun: bool) -> RequestError:
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


def _fields(returned: Any) -> dict[str, Any]:
    """The tensors of a pipeline's return value: an output class, a tuple, or a bare array."""
    if isinstance(returned, dict):
        found = {name: _as_array(value) for name, value in returned.items()}
    else:
        values = returned if isinstance(returned, tuple) else (returned,)
        found = {f"output_{i}": _as_array(value) for i, value in enumerate(values)}
    kept = {name: value for name, value in found.items() if value is not None}
    if not kept:
        raise InternalError(f"the pipeline returned no tensor, but a {type(returned).__name__}")
    return kept


def _as_array(value: Any) -> Any:
    """A tensor or array as it is, a list of them stacked; None for anything else."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value
    if isinstance(value, list) and value:
        if isinstance(value[0], Image.Image):
            return np.stack([np.asarray(picture) for picture in value])
        parts = [_as_array(part) for part in value]
        if all(isinstance(part, torch.Tensor) for part in parts):
            return torch.stack(parts)
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.stack(parts)
    return None
