"""One request between two denoising steps: all that a worker keeps of it."""

from dataclasses import dataclass, field
from typing import Any

import torch

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.request import DiffusionRequest


@dataclass(slots=True, eq=False)
class StepRequestState:
    """Made by the runner, filled by the pipeline's `prepare_encode`.

    `arguments` are those of the pipeline's call, tensors on the device. `latents` is
    [rows, ...] and `timesteps` [steps] or [steps, frames]; one request may have several rows.
    `extra` is the pipeline's own. `has_chunk`: a part of the output can be decoded now.
    """

    request: DiffusionRequest
    arguments: dict[str, Any]
    generator: torch.Generator
    latents: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    timesteps: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    scheduler: Any = None
    step_index: int = 0
    has_chunk: bool = False
    extra: Any = None
    forward_ms: float = 0.0

    def check_arguments(self, known: BatchFields) -> None:
        """Raises `ValueError` for an argument that the pipeline would leave out of its steps."""
        for name in self.arguments.keys() - {*known.key, *known.free, "output_type"}:
            raise ValueError(f"`{name}` is not available step by step")

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def total_steps(self) -> int:
        return len(self.timesteps)

    @property
    def current_timestep(self) -> torch.Tensor:
        """A scalar, or [frames]; only before the last step is done."""
        return self.timesteps[self.step_index]

    @property
    def denoise_completed(self) -> bool:
        return self.step_index >= self.total_steps
