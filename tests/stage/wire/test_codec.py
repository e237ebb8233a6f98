"""Messages to frames and back."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire import codec
from diffusion_stage.wire.codec import (
    MAX_HEADER_BYTES,
    PROTOCOL,
    about,
    decode_client,
    decode_stage,
    encode,
)
from diffusion_stage.wire.messages import (
    Accepted,
    Cancel,
    Chunk,
    ClientMessage,
    Control,
    ControlReply,
    Draining,
    EngineDead,
    Error,
    Hello,
    Ping,
    Progress,
    Result,
    StageMessage,
    Submit,
    Tensor,
)

text = st.text(max_size=20)
number = st.integers(-(2**63), 2**63 - 1)
plain = st.recursive(
    st.none() | st.booleans() | number | st.floats(allow_nan=False) | text | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
tensor = st.builds(Tensor, name=text, kind=text, dtype=text, shape=st.tuples(number, number))
params = st.dictionaries(text, plain, max_size=4)
key = {"request_id": text, "attempt": number}
from_client = st.one_of(
    st.builds(Hello, name=text, capabilities=params),
    st.builds(Submit, **key, params=params, inputs=st.lists(tensor, max_size=3)),
    st.builds(Cancel, **key),
    st.builds(Control, control_id=text, method=text, args=params),
    st.builds(Ping, token=text, reply=st.booleans()),
)
from_stage = st.one_of(
    st.builds(Hello, name=text, ready=st.booleans(), capabilities=params),
    st.builds(Accepted, **key, queue_depth=number),
    st.builds(Progress, **key, step=number, total_steps=number),
    st.builds(Chunk, **key, index=number, outputs=st.lists(tensor, max_size=3)),
    st.builds(Result, **key, outputs=st.lists(tensor, max_size=3), seed=number),
    st.builds(Error, status=text, reason=text, message=text, request_id=st.none() | text),
    st.builds(ControlReply, control_id=text, value=plain, error=st.none() | text),
    st.builds(Ping, token=text),
    st.just(Draining()),
    st.builds(EngineDead, reason=text, message=text),
)
# Bytes that are nearly a message go deeper than arbitrary ones.
header = st.binary(max_size=200) | plain.map(msgspec.msgpack.encode)
frames = st.lists(st.just(PROTOCOL) | header, max_size=5) | header.map(lambda h: [PROTOCOL, h])


def payload_of(message):
    described = getattr(message, "inputs", None) or getattr(message, "outputs", None) or []
    return [bytes([index]) for index in range(len(described))]


def fault(decode, frames):
    """The part that was refused, None when all was well; any other error fails the test."""
    try:
        decode(frames)
    except InvalidArgumentError as error:
        return error.field
    return None


def kinds(union):
    return set(union.__args__)


@given(from_client)
def test_what_a_client_encodes_the_stage_reads(message):
    payload = payload_of(message)
    decoded, parts = decode_client(encode(message, payload))
    assert (decoded, list(parts)) == (message, payload)


@given(from_stage)
def test_what_a_stage_encodes_the_client_reads(message):
    payload = payload_of(message)
    decoded, parts = decode_stage(encode(message, payload))
    assert (decoded, list(parts)) == (message, payload)


def test_the_properties_cover_every_message():
    assert len(from_client.original_strategies) == len(kinds(ClientMessage))
    assert len(from_stage.original_strategies) == len(kinds(StageMessage))


@pytest.mark.parametrize("decode", [decode_client, decode_stage])
@given(frames=frames)
def test_arbitrary_frames_raise_invalid_argument_and_nothing_else(decode, frames):
    assert fault(decode, frames) in {None, "frames", "protocol", "header", "payload"}


@given(frames)
def test_arbitrary_frames_are_about_something_or_nothing(frames):
    request_id, attempt = about(frames)
    assert request_id is None or isinstance(request_id, str)
    assert isinstance(attempt, int)


def test_payload_is_passed_through_without_a_copy():
    pixels = np.zeros(1000, np.uint8)
    tensor = Tensor(name="images", kind="tensor", dtype="uint8", shape=(1000,))
    sent = encode(Submit(request_id="a", inputs=[tensor]), [pixels.data])
    assert sent[2] is pixels.data or sent[2].obj is pixels


def test_another_protocol_version_is_refused_by_its_number():
    other = PROTOCOL[:-1] + bytes([codec.VERSION + 1])
    with pytest.raises(InvalidArgumentError, match="version 2; this side speaks 1"):
        decode_client([other, *encode(Hello(name="a"))[1:]])


def test_a_stage_of_another_version_may_say_why_it_refuses():
    other = PROTOCOL[:-1] + bytes([codec.VERSION + 1])
    error = Error(status="INVALID_ARGUMENT", reason="INVALID_ARGUMENT", message="speak 2")
    decoded, payload = decode_stage([other, *encode(error)[1:]])
    assert (decoded, payload) == (error, [])


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([], "0 frame"),
        ([PROTOCOL], "1 frame"),
        ([b"GET / HTTP/1.1", b"\x80"], "protocol frame starts with b'GET / HTTP/1.1'"),
        ([PROTOCOL, b"\x00" * (MAX_HEADER_BYTES + 1)], "at most 1048576"),
        ([PROTOCOL, msgspec.msgpack.encode({"type": "nonsense"})], "nonsense"),
        ([PROTOCOL, msgspec.msgpack.encode({"type": "hello", "name": 1})], "name"),
        ([PROTOCOL, msgspec.msgpack.encode({"type": "hello", "name": "a", "x": 1})], "x"),
        ([*encode(Ping()), b"more"], "1 payload frame"),
    ],
)
def test_a_malformed_message_is_refused_with_its_fault(frames, why):
    with pytest.raises(InvalidArgumentError, match=why):
        decode_client(frames)


def test_a_header_nested_deeper_than_python_is_refused():
    deep = {"type": "submit", "request_id": "a", "params": {"prompt": 0}}
    raw = msgspec.msgpack.encode(deep)[:-1] + b"\x91" * 100_000 + b"\x00"
    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        decode_client([PROTOCOL, raw])


def test_a_header_that_would_be_refused_is_not_sent():
    with pytest.raises(InvalidArgumentError, match="header of"):
        encode(Submit(request_id="a", params={"prompt": "x" * MAX_HEADER_BYTES}))


def test_a_refused_submit_still_says_which_request_it_was():
    wrong = {"type": "submit", "request_id": "a", "attempt": 3, "colour": "red"}
    sent = [PROTOCOL, msgspec.msgpack.encode(wrong)]
    with pytest.raises(InvalidArgumentError):
        decode_client(sent)
    assert about(sent) == ("a", 3)
