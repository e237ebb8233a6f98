"""What clients say, and what each of them hears: its own, and nobody else's."""

import threading
import time

import pytest

from diffusion_stage.errors import (
    AlreadyExistsError,
    ConfigError,
    EngineDeadError,
    InternalError,
    UnavailableError,
)
from diffusion_stage.outputs import DiffusionOutput
from diffusion_stage.server import frontend as module
from diffusion_stage.server.frontend import Frontend
from diffusion_stage.wire import codec, messages
from diffusion_stage.wire.messages import (
    Accepted,
    Cancel,
    Control,
    ControlReply,
    Draining,
    EngineDead,
    Error,
    Hello,
    Ping,
    Progress,
    Result,
    Tensor,
)
from tests.stage.builders import PIXEL, make_config, make_submit


def eventually(is_so, timeout_s=10.0):
    """Waits for what another thread does."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_request_is_accepted_followed_and_answered(client, engine):
    accepted = client.accepted("a", attempt=2, seed=7)
    assert (accepted.attempt, accepted.queue_depth) == (2, 3)
    engine.step("a", 3, 20)
    assert client.hear(Progress) == Progress(request_id="a", attempt=2, step=3, total_steps=20)
    output = DiffusionOutput((PIXEL,), (b"rgb",), seed=7, rank=1, metrics={"forward_ms": 5.0})
    engine.complete("a", output)
    result, payload = client.hear_all(Result)
    assert (result.request_id, result.attempt, result.seed, result.rank) == ("a", 2, 7, 1)
    assert (result.outputs, payload) == ([PIXEL], [b"rgb"])
    assert result.metrics["forward_ms"] == 5.0
    assert result.metrics["total_ms"] > 0


def test_a_failed_request_is_told_with_all_that_the_error_knows(client, engine):
    client.accepted("a", attempt=3)
    engine.fail("a", EngineDeadError("worker 1 died", field="x"))
    assert client.hear(Error) == Error(
        status="UNAVAILABLE",
        reason="ENGINE_DEAD",
        message="worker 1 died",
        retryable=True,
        field="x",
        request_id="a",
        attempt=3,
    )


def test_a_stage_introduces_itself(client, health):
    hello = client.greet()
    assert (hello.name, hello.model, hello.pipeline) == ("stage-0", "/models/m", "FakePipeline")
    assert hello.ready
    assert hello.capabilities["parameters"]["height"]["types"] == ["int"]
    health.enter("draining")
    assert not client.greet().ready


def test_a_loading_stage_introduces_itself_too(client, engine, health):
    engine.capabilities = None
    health._phase = "startup"
    hello = client.greet()
    assert (hello.ready, hello.pipeline, hello.capabilities) == (False, "", {})


def test_a_ping_comes_back_with_its_token(client):
    client.say(Ping(token="x"))
    assert client.hear(Ping) == Ping(token="x", reply=True)
    client.say(Ping(token="y", reply=True))
    client.say(Ping(token="z"))
    assert client.hear(Ping).token == "z"


def test_an_invalid_request_is_refused_with_its_field_and_the_next_one_is_taken(client, engine):
    client.submit("a", height=63, attempt=4)
    error = client.hear(Error)
    assert (error.status, error.field) == ("INVALID_ARGUMENT", "height")
    assert (error.request_id, error.attempt) == ("a", 4)
    assert "allowed: a multiple of 16" in error.message
    assert not error.retryable
    client.accepted("b")
    assert [request.request_id for request in engine.requests] == ["b"]


def test_a_refusal_of_the_engine_is_passed_on(client, engine):
    engine.refusal = UnavailableError("draining: this replica is about to end")
    client.submit("a")
    error = client.hear(Error)
    assert (error.status, error.retryable) == ("UNAVAILABLE", True)
    assert error.message.startswith("draining")


def test_a_bug_in_admission_is_an_internal_error_of_that_request(client, engine):
    engine.refusal = KeyError("a bug")
    client.submit("a")
    error = client.hear(Error)
    assert (error.status, error.request_id) == ("INTERNAL", "a")
    engine.refusal = None
    client.accepted("b")


def test_an_id_in_use_is_refused_and_its_owner_goes_on(connect, engine):
    """Also while the engine has ended the first, and its end has not been sent yet."""
    first, second = connect(), connect()
    first.accepted("a")
    for other in (first, second):
        other.submit("a", attempt=2)
        error = other.hear(Error)
        assert (error.reason, error.attempt) == (AlreadyExistsError.reason, 2)
        assert error.field == "request_id"
    engine.complete("a")
    assert first.end_of("a").attempt == 1
    second.accepted("a")


def test_one_client_cannot_take_all_places(connect):
    greedy, modest = connect(), connect()
    for number in range(5):
        greedy.accepted(f"{number}")
    greedy.submit("too many")
    assert greedy.hear(Error).reason == "RESOURCE_EXHAUSTED"
    modest.accepted("mine")


def test_answers_that_a_client_does_not_read_count_as_its_own(connect, engine):
    """They keep memory of the stage as live requests do."""
    mute = connect()
    spec = Tensor(name="x", kind="tensor", dtype="uint8", shape=(16 << 20,))
    for number in range(5):
        mute.submit(f"{number}")
    eventually(lambda: len(engine.requests) == 5)
    for number in range(5):
        output = DiffusionOutput((spec,), (bytes(16 << 20),), seed=0)
        engine.complete(f"{number}", output)
    connect().accepted("other")
    mute.submit("one more")
    error = mute.end_of("one more")
    assert (error.reason, error.retryable) == ("RESOURCE_EXHAUSTED", True)
    assert "unread answers; allowed: 5" in error.message
    connect().accepted("another")
    mute.accepted("one more", attempt=2)


def test_a_cancel_means_its_own_attempt_of_its_own_client(connect, engine):
    owner, other = connect(), connect()
    owner.accepted("a", attempt=2)
    other.say(Cancel(request_id="a", attempt=2))
    other.greet()
    owner.say(Cancel(request_id="a", attempt=1))
    owner.say(Cancel(request_id="unknown"))
    owner.greet()
    assert engine.aborted == []
    owner.say(Cancel(request_id="a", attempt=2))
    owner.greet()
    assert engine.aborted == ["a"]


def test_the_requests_of_a_client_that_is_gone_are_aborted(connect, engine):
    leaving, staying = connect(), connect()
    leaving.accepted("a")
    leaving.accepted("b")
    staying.accepted("c")
    leaving.close()
    eventually(lambda: sorted(engine.aborted) == ["a", "b"])
    engine.complete("c")
    staying.end_of("c")


def test_an_output_for_a_client_that_is_gone_is_released(connect, engine):
    leaving = connect()
    leaving.accepted("a")
    leaving.close()
    eventually(lambda: engine.aborted == ["a"])
    released = threading.Event()
    engine.complete("a", DiffusionOutput((PIXEL,), (b"rgb",), seed=0, release=released.set))
    assert released.wait(timeout=10)


def test_an_output_is_released_once_it_was_sent(client, engine):
    client.accepted("a")
    released = []
    data = bytes(3_000_000)
    spec = Tensor(name="x", kind="tensor", dtype="uint8", shape=(len(data),))
    output = DiffusionOutput((spec,), (data,), seed=0, release=lambda: released.append(1))
    engine.complete("a", output)
    assert client.hear_all(Result)[1] == [data]
    eventually(lambda: released == [1])


def test_idle_clients_that_are_gone_are_forgotten(connect, frontend, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_S", 0.0)
    connect().greet()
    leaving = connect()
    leaving.greet()
    leaving.close()
    eventually(lambda: len(frontend._clients) == 1)


def test_the_workers_can_be_asked_for(client, engine):
    client.say(Control(control_id="1", method="workers"))
    client.greet()
    engine.call.set_result([{"rank": 0}])
    assert client.hear(ControlReply) == ControlReply(control_id="1", value=[{"rank": 0}])


def test_a_failed_control_call_says_why(client, engine):
    client.say(Control(control_id="1", method="workers"))
    client.greet()
    engine.call.set_exception(InternalError("rank 1: KeyError"))
    assert client.hear(ControlReply).error == "rank 1: KeyError"


def test_the_status_can_be_asked_for(client):
    client.say(Control(control_id="1", method="status"))
    assert client.hear(ControlReply).value == {"phase": "serving"}


def test_an_unknown_control_method_is_refused_with_those_there_are(client):
    client.say(Control(control_id="1", method="reboot"))
    assert (
        client.hear(ControlReply).error
        == "method 'reboot'; allowed: status, workers, collective_rpc"
    )


@pytest.mark.parametrize("message", [Draining(), EngineDead(reason="Hang", message="no step")])
def test_every_client_hears_of_the_stages_end(connect, frontend, message):
    clients = [connect(), connect()]
    for client in clients:
        client.greet()
    frontend.announce(message)
    assert [client.hear(type(message)) for client in clients] == [message, message]


def test_ends_are_sent_before_the_word_of_a_death(client, engine, frontend):
    for number in range(3):
        client.accepted(f"{number}")
    for number in range(3):
        engine.fail(f"{number}", EngineDeadError("dead"))
    frontend.announce(EngineDead(reason="Hang", message="no step"))
    kinds = [type(client.hear(Error | EngineDead)) for _ in range(4)]
    assert kinds == [Error, Error, Error, EngineDead]


def test_flush_waits_for_what_was_written(client, engine, frontend):
    client.accepted("a")
    engine.complete("a")
    assert frontend.flush(timeout_s=10)
    assert client.end_of("a", timeout_s=5)


def test_a_port_that_is_taken_is_a_wrong_configuration(frontend, engine, health, metrics):
    engine.config = make_config(port=frontend.port)
    with pytest.raises(ConfigError, match=f"--port {frontend.port} on 127.0.0.1: Address already"):
        Frontend(engine, health, metrics, dict, name="second")


HELLO = codec.encode(Hello(name="x"))
BAD_FRAMES = {
    "one frame": [b"x"],
    "an empty frame": [b""],
    "no protocol": [b"GET / HTTP/1.1", b""],
    "another version": [codec.PROTOCOL[:-1] + b"\x02", HELLO[1]],
    "no msgpack": [codec.PROTOCOL, b"\xc1"],
    "no message": [codec.PROTOCOL, b"\x93\x01\x02\x03"],
    "an unknown message": [codec.PROTOCOL, b"\x81\xa4type\xa5dance"],
    "a field too many": [codec.PROTOCOL, b"\x82\xa4type\xa4ping\xa1x\x01"],
    "a payload too many": [*HELLO, b"payload"],
    "a stage's message": codec.encode(messages.EngineDead(reason="x", message="y")),
    "a header too long": [codec.PROTOCOL, bytes((1 << 20) + 1)],
    "a header nested too deep": [codec.PROTOCOL, b"\x91" * 100_000],
}


@pytest.mark.parametrize("frames", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_what_is_no_message_is_answered_to_its_sender_alone(connect, engine, frames):
    bad, good = connect(), connect()
    good.accepted("a")
    bad.say_frames(frames)
    error = bad.hear(Error)
    assert (error.status, error.request_id) == ("INVALID_ARGUMENT", None)
    engine.complete("a")
    good.end_of("a")
    assert good.errors() == []
    bad.greet()


def test_a_request_that_is_no_message_gets_its_end(client):
    header = codec._encoder.encode({"type": "submit", "request_id": "a", "attempt": 2, "seed": "x"})
    client.say_frames([codec.PROTOCOL, header])
    error = client.end_of("a")
    assert (error.status, error.attempt, error.field) == ("INVALID_ARGUMENT", 2, "header")


LONG = "x" * ((1 << 20) - 200)
TOO_LONG_TO_REPEAT = {
    "a request id": make_submit(LONG),
    "a parameter": make_submit("a", **{LONG: 1}),
    "a prompt of a wrong type": make_submit("a", height=LONG),
    "a control id": Control(control_id=LONG, method="reboot"),
    "a method": Control(control_id="1", method=LONG),
}


@pytest.mark.parametrize("message", TOO_LONG_TO_REPEAT.values(), ids=TOO_LONG_TO_REPEAT)
def test_who_says_more_than_an_answer_can_repeat_is_answered_all_the_same(client, message):
    client.say(message)
    client.hear(Error | ControlReply | Ping)
    client.accepted("b")


def test_accepted_comes_before_anything_else_of_a_request(client, engine):
    plain = engine.add_request

    def add_and_end(request, notify):
        stream = plain(request, notify)
        engine.complete(request.request_id)
        return stream

    engine.add_request = add_and_end
    client.submit("a")
    assert isinstance(client.hear(Accepted | Result), Accepted)
    client.end_of("a")
