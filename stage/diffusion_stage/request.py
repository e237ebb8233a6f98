"""A generation request on its way through the stage, and the states it passes."""

import enum
from dataclasses import dataclass, field
from typing import Any

from diffusion_stage.wire.messages import Tensor


class DiffusionRequestStatus(enum.IntEnum):
    """The life of an admitted request; every value from `FINISHED_COMPLETED` on is terminal.

    `PREEMPTED`: it waits again, and its worker keeps what was computed. `MATERIALIZING`: the
    forward is done and the device is free, the output is still being packed.
    """

    WAITING = 1
    RUNNING = 2
    PREEMPTED = 3
    MATERIALIZING = 4
    FINISHED_COMPLETED = 5
    FINISHED_ABORTED = 6
    FINISHED_ERROR = 7

    @property
    def is_finished(self) -> bool:
        return self >= DiffusionRequestStatus.FINISHED_COMPLETED


@dataclass(frozen=True, slots=True)
class InputTensor:
    """A parameter that came as a payload frame: its description and its bytes."""

    spec: Tensor
    data: bytes


@dataclass(frozen=True, slots=True)
class DiffusionRequest:
    """What one caller asked for, validated; nothing changes it afterwards.

    `params` are keyword arguments of the pipeline's call. `output` is `image`, `tensor` or
    `latent`. `deadline_at` and `arrived_at` are seconds of the stage process's monotonic clock.
    `request_id` and `attempt` together name one try; the id alone is unique among live requests.
    """

    request_id: str
    attempt: int
    params: dict[str, Any]
    seed: int
    output: str = "image"
    inputs: tuple[InputTensor, ...] = field(default=())
    priority: int = 0
    arrived_at: float = 0.0
    deadline_at: float | None = None
