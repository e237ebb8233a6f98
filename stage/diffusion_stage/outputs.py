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

    In step mode `step_index` of `total_steps` are done, and there is more to come unless
    `is_finished`; a `result` before that is a chunk of the output.
    """

    request_id: str
    result: DiffusionOutput | None = None
    error: RequestError | None = None
    async_output_id: str | None = None
    step_index: int | None = None
    total_steps: int = 0
    is_finished: bool = True


@dataclass(frozen=True, slots=True)
class StepBatch:
    """One forward of step mode: how many requests it had, and how long it took."""

    size: int
    step_ms: float


class BatchRunnerOutput:
    """Runner outputs by request id; their order means nothing.

    In step mode, `step_id` is that of the scheduler output which is carried out with them, and
    `batches` are its forwards.
    """

    def __init__(
        self,
        outputs: Iterable[RunnerOutput] = (),
        *,
        step_id: int | None = None,
        batches: Iterable[StepBatch] = (),
    ) -> None:
        self.outputs = tuple(outputs)
        self.step_id = step_id
        self.batches = tuple(batches)

    def __bool__(self) -> bool:
        return bool(self.outputs) or self.step_id is not None


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


@dataclass(frozen=True, slots=True)
class ChunkReady:
    """A part of the output, `index` counting from 0; the consumer releases `output`."""

    index: int
    output: DiffusionOutput


StreamEvent = StepProgress | ChunkReady | Completed | Failed
