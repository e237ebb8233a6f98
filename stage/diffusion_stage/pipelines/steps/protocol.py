"""What a pipeline implements to run step by step, and where it is found."""

from typing import Any, Protocol, runtime_checkable

import torch

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.config.imports import import_class
from diffusion_stage.pipelines.steps.batch import InputBatch
from diffusion_stage.pipelines.steps.state import StepRequestState

NATIVE = {
    "SkyReelsV2DiffusionForcingPipeline": "diffusion_forcing:DiffusionForcingSteps",
    "ZImagePipeline": "zimage:ZImageSteps",
}
"""Classes of diffusers, and what runs them step by step."""


@runtime_checkable
class SupportsStepExecution(Protocol):
    """The denoising loop, turned inside out. It knows no queue and no other request.

    Exceptions of a method belong to the request at hand; of `denoise_step`, to one of the batch.
    `has_chunks`: `step_scheduler` sets `state.has_chunk` when a part of the output is final.
    """

    supports_step_execution: bool
    step_batch: BatchFields
    has_chunks: bool

    def prepare_encode(self, state: StepRequestState) -> None:
        """Once, before the first step: fill in latents, timesteps and scheduler.

        Raises `ValueError` for arguments that the pipeline refuses.
        """

    def denoise_step(self, batch: InputBatch) -> torch.Tensor:
        """The prediction of the model for each row, guided as each request asks for."""

    def step_scheduler(self, state: StepRequestState, prediction: torch.Tensor) -> None:
        """Take the request's own rows of the prediction into its latents."""

    def post_decode(self, state: StepRequestState) -> dict[str, Any]:
        """What is final and was not given yet, by name, as arrays or tensors."""


@runtime_checkable
class EncodesTogether(Protocol):
    """Encodes the prompts of several newcomers in one call."""

    def encode_together(self, states: list[StepRequestState]) -> None:
        """Before their `prepare_encode`; if it fails, each of those encodes its own."""


@runtime_checkable
class SupportsRequestBatch(Protocol):
    """One call for several requests, which agree in `request_batch.key`."""

    request_batch: BatchFields

    def call_batch(
        self, states: list[StepRequestState], shared: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Each request's output by name, in their order. `shared`: more arguments of the call."""


def find(pipeline: Any) -> Any:
    """What batches for this pipeline: itself, a class of ours around it, or None."""
    if isinstance(pipeline, (SupportsStepExecution, SupportsRequestBatch)):
        return pipeline
    path = NATIVE.get(type(pipeline).__name__)
    if path is None:
        return None
    return import_class(f"{__package__}.{path}")(pipeline)
