"""The messages between client and stage, one class each, told apart by their `type` field.

A client opens with `Hello`, which the stage answers with its own. `Submit` is answered by
`Accepted` or `Error`; an accepted attempt ends with exactly one `Result` or `Error`. `Progress` and
`Chunk` may come before that. Every message about a request carries its id and the attempt, so that
an answer to an abandoned attempt can be told from the current one.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct, field


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A message without payload frames; fields with defaults may be left out on the wire."""


class Tensor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes one payload frame: C-order, little-endian.

    `kind` says what the array is: `image` (uint8, [n, height, width, channels]), `video` (uint8,
    [n, frames, height, width, channels]) or `tensor` (any numeric `dtype`, any `shape`).
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """Opens a connection. `name` is the client's or the stage's; the rest is the stage's only."""

    name: str
    model: str = ""
    pipeline: str = ""
    ready: bool = False
    capabilities: dict[str, Any] = field(default_factory=dict)


class Submit(Message, frozen=True, kw_only=True, tag="submit"):
    """Asks for one generation.

    `params` go to the pipeline's call by name (prompt, height, num_inference_steps, ...); `inputs`
    describe the payload frames, which become parameters of that name. `output` is `image` (uint8),
    `tensor` (float, as the pipeline's `pt`) or `latent`. `seed` None lets the stage choose one.
    `deadline_s` counts from arrival; a lower `priority` number runs earlier.
    """

    request_id: str
    attempt: int = 1
    params: dict[str, Any] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    output: str = "image"
    seed: int | None = None
    priority: int = 0
    deadline_s: float | None = None


class Accepted(Message, frozen=True, kw_only=True, tag="accepted"):
    """The attempt is admitted: it will end with one `Result` or `Error`."""

    request_id: str
    attempt: int
    queue_depth: int


class Progress(Message, frozen=True, kw_only=True, tag="progress"):
    """`step` of `total_steps` denoising steps are done; steps may be left out when many pass."""

    request_id: str
    attempt: int
    step: int
    total_steps: int


class Chunk(Message, frozen=True, kw_only=True, tag="chunk"):
    """A part of the output, `index` counting from 0; its tensors are in the payload frames."""

    request_id: str
    attempt: int
    index: int
    outputs: list[Tensor]


class Result(Message, frozen=True, kw_only=True, tag="result"):
    """The end of a successful attempt; `metrics` are milliseconds by stage of its life."""

    request_id: str
    attempt: int
    outputs: list[Tensor]
    seed: int
    rank: int = 0
    metrics: dict[str, float] = field(default_factory=dict)


class Error(Message, frozen=True, kw_only=True, tag="error"):
    """The end of a failed attempt, or (without request id) an answer to a message not understood.

    `status` is a gRPC status name, `reason` narrows it (`ENGINE_DEAD` within `UNAVAILABLE`).
    """

    status: str
    reason: str
    message: str
    retryable: bool = False
    field: str | None = None
    request_id: str | None = None
    attempt: int = 0


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """Ends an attempt with the error `CANCELLED`; an unknown or finished one is left alone."""

    request_id: str
    attempt: int = 1


class Control(Message, frozen=True, kw_only=True, tag="control"):
    """Calls a control method of the stage, by name; answered by `ControlReply` with the same id."""

    control_id: str
    method: str
    args: dict[str, Any] = field(default_factory=dict)


class WorkerCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `args` of the control method `collective_rpc`: a worker method, for every rank."""

    call: str
    args: dict[str, Any] = field(default_factory=dict)
    call_timeout_s: Annotated[float, Meta(gt=0)] | None = None


class ControlReply(Message, frozen=True, kw_only=True, tag="control_reply"):
    """`error` None means that it worked."""

    control_id: str
    value: Any = None
    error: str | None = None


class Ping(Message, frozen=True, kw_only=True, tag="ping"):
    """Asks for a `Ping` with the same token and `reply` true."""

    token: str = ""
    reply: bool = False


class Draining(Message, frozen=True, kw_only=True, tag="draining"):
    """The stage takes no new requests; those that it accepted will be answered."""


class EngineDead(Message, frozen=True, kw_only=True, tag="engine_dead"):
    """The stage is about to end; its termination message will tell the same reason and message."""

    reason: str
    message: str


ClientMessage = Hello | Submit | Cancel | Control | Ping
StageMessage = (
    Hello
    | Accepted
    | Progress
    | Chunk
    | Result
    | Error
    | ControlReply
    | Ping
    | Draining
    | EngineDead
)
