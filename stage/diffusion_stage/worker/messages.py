"""What the stage process and a worker process say to each other.

A call carries an id that its replies repeat; `request_id` and `attempt` ride along, and positions
mean nothing (DIFF-RUNTIME-INV-005).
"""

from typing import Any

import msgspec
from msgspec import Struct

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.wire.messages import Tensor


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """All that a worker process is told at its start; `store` names the rendezvous file."""

    rank: int
    world_size: int
    device: str
    dtype: str
    model_uri: str
    model_revision: str | None
    pipeline_class: str | None
    worker_extension: str | None
    is_streaming: bool
    model_runner: str | None
    store: str


class ExecuteModel(Struct, frozen=True, kw_only=True, tag="execute_model"):
    """Run one request; answered by `StepDone`s, `ComputeDone` and, if it worked, `OutputReady`."""

    call_id: int
    request: DiffusionRequest


class ExecuteModelBatch(Struct, frozen=True, kw_only=True, tag="execute_model_batch"):
    """Run several requests in one call; each is answered as if it had come by itself."""

    calls: tuple[ExecuteModel, ...]


class ExecuteStep(Struct, frozen=True, kw_only=True, tag="execute_step"):
    """Forget `finished`, then take one step with `new` and `cached`; answered by `StepsTaken`."""

    call_id: int
    new: tuple[DiffusionRequest, ...] = ()
    cached: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()


class CallMethod(Struct, frozen=True, kw_only=True, tag="call_method"):
    """Call a worker method by name, between forwards; answered by `MethodDone`."""

    call_id: int
    method: str
    args: dict[str, Any]


class AbortCall(Struct, frozen=True, kw_only=True, tag="abort_call"):
    """End a forward at its next step, or drop it when it has not begun."""

    call_id: int


class ReleaseSegment(Struct, frozen=True, kw_only=True, tag="release_segment"):
    """The lease of a shared memory segment is over: the worker may write to it again."""

    segment_id: int


class AreYouThere(Struct, frozen=True, kw_only=True, tag="are_you_there"):
    """Answered at once by `HereIAm`, also during a forward."""


class Stop(Struct, frozen=True, kw_only=True, tag="stop"):
    """End after the forward at hand."""


class Ready(Struct, frozen=True, kw_only=True, tag="ready"):
    """The model is loaded."""

    capabilities: Capabilities


class StartFailed(Struct, frozen=True, kw_only=True, tag="start_failed"):
    """The worker cannot serve; `reason` is that of a `FatalError`."""

    reason: str
    message: str


class StepDone(Struct, frozen=True, kw_only=True, tag="step_done"):
    call_id: int
    step: int
    total_steps: int


class ComputeDone(Struct, frozen=True, kw_only=True, tag="compute_done"):
    """The forward ended and the device is free. `reason` is that of a `RequestError`, if it failed.

    `fatal` is the reason of a `FatalError` when the failure left the device unusable.
    """

    call_id: int
    reason: str | None = None
    message: str = ""
    field: str | None = None
    fatal: str | None = None


class Packed(Struct, frozen=True, kw_only=True):
    """An output: in `inline`, or in a segment at `offsets`.

    A segment's descriptor comes with the first message that names it. `dropped` are segments that
    the worker has closed.
    """

    specs: tuple[Tensor, ...] = ()
    inline: tuple[bytes, ...] = ()
    segment_id: int | None = None
    offsets: tuple[int, ...] = ()
    metrics: dict[str, float] = {}
    dropped: tuple[int, ...] = ()


class OutputReady(Struct, frozen=True, kw_only=True, tag="output_ready"):
    """The output is packed, or could not be, for `reason` and `message`."""

    call_id: int
    packed: Packed | None = None
    reason: str | None = None
    message: str = ""


class StepTaken(Struct, frozen=True, kw_only=True):
    """What one request's step came to; `packed` before the end is a chunk of its output."""

    request_id: str
    step_index: int = 0
    total_steps: int = 0
    is_finished: bool = False
    packed: Packed | None = None
    reason: str | None = None
    message: str = ""
    field: str | None = None


class StepsTaken(Struct, frozen=True, kw_only=True, tag="steps_taken"):
    """The answer to `ExecuteStep`, with a `StepTaken` for each request of it, in any order.

    Descriptors of new segments come with it, in the order of `packed`. `batch_size` is that of the
    forward, which took `step_ms` milliseconds. `fatal` as in `ComputeDone`.
    """

    call_id: int
    taken: tuple[StepTaken, ...] = ()
    batch_size: int = 0
    step_ms: float = 0.0
    fatal: str | None = None
    message: str = ""


class MethodDone(Struct, frozen=True, kw_only=True, tag="method_done"):
    call_id: int
    value: Any = None
    error: str | None = None


class HereIAm(Struct, frozen=True, kw_only=True, tag="here_i_am"):
    """The answer to `AreYouThere`."""


ToWorker = (
    ExecuteModel
    | ExecuteModelBatch
    | ExecuteStep
    | CallMethod
    | AbortCall
    | ReleaseSegment
    | AreYouThere
    | Stop
)
FromWorker = (
    Ready | StartFailed | StepDone | ComputeDone | OutputReady | StepsTaken | MethodDone | HereIAm
)

to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
encoder = msgspec.msgpack.Encoder()
