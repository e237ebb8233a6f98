"""The tensors of a step of several requests, kept while the same requests run."""

from collections.abc import Sequence
from typing import Any, Self

import torch

from diffusion_stage.pipelines.steps.state import StepRequestState


class InputBatch:
    """`latents` [rows, ...] and `timesteps` [rows, ...] of all requests, one after the other.

    `kept` is what the pipeline derives from the composition, valid while it stands. Rows map
    nothing: `split` gives each request its own part (DIFF-RUNTIME-INV-005).
    """

    def __init__(self, states: Sequence[StepRequestState]) -> None:
        self.states = tuple(states)
        self.kept: dict[str, Any] = {}
        self._sizes = [len(state.latents) for state in states]
        self.latents = torch.cat([state.latents for state in states])
        self.timesteps = self._timesteps()

    @classmethod
    def make(cls, states: Sequence[StepRequestState], former: Self | None) -> Self:
        """A batch of these states; the former one with new numbers if it has the same states.

        Raises `ValueError` for latents of different shapes.
        """
        if former is None or former.states != tuple(states):
            return cls(states)
        torch.cat([state.latents for state in states], out=former.latents)
        former.timesteps = former._timesteps()
        return former

    def _timesteps(self) -> torch.Tensor:
        rows = zip(self.states, self._sizes, strict=True)
        return torch.stack([s.current_timestep for s, size in rows for _ in range(size)])

    def split(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """[rows, ...] as one [own rows, ...] for each state, in the order of `states`."""
        return list(torch.split(rows, self._sizes))
