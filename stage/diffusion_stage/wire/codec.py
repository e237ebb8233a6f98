"""Messages to frames and back: `[protocol, header, payload...]`, no pickle.

The protocol frame names the version, so that a peer of another version gets an answer it can read
in its log. The header is msgpack (https://msgpack.org). Payload frames are raw array bytes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.messages import (
    Chunk,
    ClientMessage,
    Error,
    Result,
    StageMessage,
    Submit,
    Tensor,
)

VERSION = 1
PROTOCOL = b"DSTAGE" + bytes([VERSION])
MAX_HEADER_BYTES = 1 << 20

Frame = bytes | memoryview

_encoder = msgspec.msgpack.Encoder()
_of_client: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(ClientMessage)
_of_stage: msgspec.msgpack.Decoder[StageMessage] = msgspec.msgpack.Decoder(StageMessage)


def encode(message: ClientMessage | StageMessage, payload: Sequence[Frame] = ()) -> list[Frame]:
    """The frames of one message; payload frames are passed through, not copied.

    Raises `InvalidArgumentError` for a header that the other side would refuse for its length.
    """
    header = _encoder.encode(message)
    _check_length(header)
    return [PROTOCOL, header, *payload]


def decode_client(frames: Sequence[Frame]) -> tuple[ClientMessage, Sequence[Frame]]:
    """What a client said. Raises `InvalidArgumentError` that says what is wrong with the frames."""
    message, payload = _decode(frames, _of_client)
    return message, payload


def decode_stage(frames: Sequence[Frame]) -> tuple[StageMessage, Sequence[Frame]]:
    """What a stage said. Raises `InvalidArgumentError` as `decode_client`.

    The one thing read from a stage of another version is its `Error` about our version.
    """
    if frames and _is_foreign(frames[0]):
        error, _ = _decode([PROTOCOL, *frames[1:]], msgspec.msgpack.Decoder(Error))
        return error, []
    return _decode(frames, _of_stage)


class _About(msgspec.Struct):
    request_id: str | None = None
    attempt: int = 0


def about(frames: Sequence[Frame]) -> tuple[str | None, int]:
    """The request id and attempt that frames speak of which do not decode, as far as readable.

    With it the error reaches the request that it ends.
    """
    if len(frames) < 2 or len(frames[1]) > MAX_HEADER_BYTES:
        return None, 0
    try:
        found = msgspec.msgpack.decode(frames[1], type=_About)
    except (msgspec.DecodeError, RecursionError):
        return None, 0
    return found.request_id, found.attempt


def _is_foreign(protocol: Frame) -> bool:
    same_family = len(protocol) == len(PROTOCOL) and bytes(protocol[:-1]) == PROTOCOL[:-1]
    return same_family and protocol[-1] != VERSION


def _decode(frames: Sequence[Frame], decoder: Any) -> tuple[Any, Sequence[Frame]]:
    if len(frames) < 2:
        raise InvalidArgumentError(
            f"a message has a protocol frame, a header and payload; got {len(frames)} frame(s)",
            field="frames",
        )
    protocol, header, *payload = frames
    if _is_foreign(protocol):
        raise InvalidArgumentError(
            f"protocol version {protocol[-1]}; this side speaks {VERSION}", field="protocol"
        )
    if bytes(protocol[: len(PROTOCOL) + 1]) != PROTOCOL:
        raise InvalidArgumentError(
            f"the protocol frame starts with {bytes(protocol[:16])!r}; it must be {PROTOCOL!r}",
            field="protocol",
        )
    _check_length(header)
    try:
        message = decoder.decode(header)
    except RecursionError:  # msgspec 0.23 nests as deep as Python does
        raise InvalidArgumentError("the header is nested too deeply", field="header") from None
    except msgspec.DecodeError as error:  # also ValidationError: wrong type, missing, unknown
        raise InvalidArgumentError(
            f"the header is no known message: {error}", field="header"
        ) from None
    _check_payload(message, payload)
    return message, payload


def _check_length(header: Frame) -> None:
    if len(header) > MAX_HEADER_BYTES:
        raise InvalidArgumentError(
            f"a header of {len(header)} bytes; at most {MAX_HEADER_BYTES} are allowed",
            field="header",
        )


def _check_payload(message: ClientMessage | StageMessage, payload: Sequence[Frame]) -> None:
    described: list[Tensor] = []
    match message:
        case Submit():
            described = message.inputs
        case Chunk() | Result():
            described = message.outputs
        case _:
            pass
    if len(described) != len(payload):
        raise InvalidArgumentError(
            f"{len(payload)} payload frame(s), but the header describes {len(described)}",
            field="payload",
        )
