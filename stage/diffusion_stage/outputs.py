"""What comes back from execution, and what a request's consumer sees of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from diffusion_stage.errors import RequestError
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Tensor


def _nothing() -> None:
    """The release of an output that borrows nothing."""


@dataclass(frozen=True, slots=True)
class DiffusionOutput:
    """The tensors of a finished request, described by `specs`, with their bytes in `data`.

    `data` may be views of memory lent by a worker: whoever holds the output calls `release` once
    when the bytes were sent or are not wanted. `metrics` are milliseconds.
    """

    specs: tuple[Tensor, ...]
    data: tuple[Frame, ...]
    seed: int
    rank: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    release: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class RunnerOutput:
    """What execution says of one request: its forward is done, its output is ready, or it failed.

    `async_output_id` alone means that the device is free and the output is still being packed; the
    same id comes again with the `result`. Either message may come first.
    """

    request_id: str
    result: DiffusionOutput | None = None
    error: RequestError | None = None
    async_output_id: str | None = None


class BatchRunnerOutput:
    """Runner outputs by request id; their order means nothing."""

    def __init__(self, outputs: Iterable[RunnerOutput] = ()) -> None:
        self.outputs = tuple(outputs)

    def __bool__(self) -> bool:
        return bool(self.outputs)


@dataclass(frozen=True, slots=True)
class StepProgress:
    """`step` of `total_steps` denoising steps of a request are done."""

    step: int
    total_steps: int


@dataclass(frozen=True, slots=True)
class Completed:
    """The successful end of a request; the consumer releases `output`."""

    output: DiffusionOutput


@dataclass(frozen=True, slots=True)
class Failed:
    """Any other end of a request, cancelled ones included."""

    error: RequestError


StreamEvent = StepProgress | Completed | Failed
