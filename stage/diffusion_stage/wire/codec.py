"""Messages to frames and back: `[protocol, header, payload...]`, no pickle.

The protocol frame names the version, so that a peer of another version gets an answer it can read
in its log. The header is msgpack (https://msgpack.org). Payload frames are raw array bytes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.messages import ClientMessage, Error, StageMessage, Tensor

VERSION = 1
PROTOCOL = b"DSTAGE" + bytes([VERSION])
MAX_HEADER_BYTES = 1 << 20

Frame = bytes | memoryview

_encoder = msgspec.msgpack.Encoder()
_of_client: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(ClientMessage)
_of_stage: msgspec.msgpack.Decoder[StageMessage] = msgspec.msgpack.Decoder(StageMessage)


def encode(message: ClientMessage | StageMessage, payload: Sequence[Frame] = ()) -> list[Frame]:
    """The frames of one message; payload frames are passed through, not copied."""
    return [PROTOCOL, _encoder.encode(message), *payload]


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


def _is_foreign(protocol: Frame) -> bool:
    return len(protocol) == len(PROTOCOL) and bytes(protocol[:-1]) == PROTOCOL[:-1] and (
        protocol[-1] != VERSION
    )


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
    if len(header) > MAX_HEADER_BYTES:
        raise InvalidArgumentError(
            f"a header of {len(header)} bytes; at most {MAX_HEADER_BYTES} are allowed",
            field="header",
        )
    try:
        message = decoder.decode(header)
    except msgspec.DecodeError as error:  # also ValidationError: wrong type, missing, unknown
        raise InvalidArgumentError(f"the header is no known message: {error}", field="header") from None
    _check_payload(message, payload)
    return message, payload


def _check_payload(message: object, payload: Sequence[Frame]) -> None:
    described: list[Tensor] = []
    for name in ("inputs", "outputs"):
        if name in message.__struct_fields__:  # type: ignore[attr-defined]  # a msgspec Struct
            described = getattr(message, name)
    if len(described) != len(payload):
        raise InvalidArgumentError(
            f"{len(payload)} payload frame(s), but the header describes {len(described)}",
            field="payload",
        )
