"""What a client makes of a stage's messages, without sockets and without waiting."""

import msgspec
import pytest

from diffusion_stage.client.attempt import Failure
from diffusion_stage.client.session import (
    GIVE_UP_AFTER_S,
    GREET_EVERY_S,
    PING_AFTER_S,
    Session,
)
from diffusion_stage.errors import EngineDeadError, InternalError, UnavailableError
from diffusion_stage.wire.codec import PROTOCOL, VERSION, decode_client, encode
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
    Result,
    Submit,
)

SUBMIT = Submit(request_id="a")
HELLO = Hello(name="flux-0", model="m", ready=True)
UNAVAILABLE = Error(
    status="UNAVAILABLE", reason="UNAVAILABLE", message="draining", retryable=True, request_id="a"
)


class Wire:
    """The other side of a session: what it was told, and whether it takes messages."""

    def __init__(self):
        self.sent = []
        self.is_open = True
        self.changes = 0
        self.session = Session("tcp://a:1", client_name="me", send=self.take, on_change=self.change)

    def take(self, frames):
        if self.is_open:
            self.sent.append(decode_client(frames)[0])
        return self.is_open

    def change(self):
        self.changes += 1

    def say(self, message, now=0.0):
        self.session.received(encode(message), now=now)

    def told(self, kind):
        return [each for each in self.sent if isinstance(each, kind)]


@pytest.fixture
def wire():
    """Connected, and the stage has not answered yet."""
    wire = Wire()
    wire.session.opened(now=0.0)
    return wire


@pytest.fixture
def ready(wire):
    wire.say(HELLO)
    return wire


async def replies(attempt):
    found = []
    while not attempt.is_ended or not attempt._replies.empty():
        found.append(await attempt.reply())
    return found


async def failure(attempt):
    (only,) = await replies(attempt)
    assert isinstance(only, Failure)
    return only.error


def test_a_session_opens_with_hello_and_is_ready_once_the_stage_says_so(wire):
    assert wire.sent == [Hello(name="me")]
    assert not wire.session.is_ready
    wire.say(HELLO)
    assert wire.session.is_ready
    assert wire.session.name == "flux-0"
    assert wire.changes == 1


def test_a_stage_that_is_not_ready_is_greeted_again_until_it_is(wire):
    wire.say(Hello(name="flux-0", ready=False))
    wire.session.tick(now=GREET_EVERY_S - 0.1)
    assert len(wire.told(Hello)) == 1
    wire.session.tick(now=GREET_EVERY_S)
    assert len(wire.told(Hello)) == 2
    wire.say(HELLO)
    wire.session.tick(now=10.0)
    assert len(wire.told(Hello)) == 2


async def test_an_attempt_is_under_way_until_its_result(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    assert ready.session.in_flight == 1
    ready.say(Accepted(request_id="a", attempt=1, queue_depth=0))
    ready.say(Result(request_id="a", attempt=1, outputs=[], seed=1))
    assert [type(each.message) for each in await replies(attempt)] == [Accepted, Result]
    assert ready.session.in_flight == 0


async def test_a_second_answer_is_dropped(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    for seed in (1, 2):
        ready.say(Result(request_id="a", attempt=1, outputs=[], seed=seed))
    assert [each.message.seed for each in await replies(attempt)] == [1]


async def test_answers_to_other_attempts_are_dropped(ready):
    attempt = ready.session.submit(Submit(request_id="a", attempt=2), [], now=0.0)
    ready.say(Result(request_id="a", attempt=1, outputs=[], seed=1))
    ready.say(Result(request_id="b", attempt=2, outputs=[], seed=2))
    ready.say(Result(request_id="a", attempt=2, outputs=[], seed=3))
    assert [each.message.seed for each in await replies(attempt)] == [3]


async def test_an_attempt_that_cannot_be_sent_has_failed(ready):
    ready.is_open = False
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    assert isinstance(await failure(attempt), UnavailableError)
    assert ready.session.in_flight == 0


def test_abandoning_an_attempt_under_way_cancels_it_once(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.session.abandon(attempt)
    ready.session.abandon(attempt)
    assert ready.told(Cancel) == [Cancel(request_id="a", attempt=1)]


def test_abandoning_an_ended_attempt_tells_nobody(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(Result(request_id="a", attempt=1, outputs=[], seed=1))
    ready.session.abandon(attempt)
    assert ready.told(Cancel) == []


async def test_a_lost_connection_fails_what_is_under_way(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    reply = ready.session.control("status", {}, now=0.0)
    ready.session.lost("the connection was lost")
    assert str(await failure(attempt)) == "flux-0: the connection was lost"
    with pytest.raises(UnavailableError, match="flux-0: the connection was lost"):
        await reply
    assert not ready.session.is_ready


async def test_a_dead_engine_fails_what_is_under_way_and_takes_nothing_new(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(EngineDead(reason="WorkerDied", message="worker 1 was killed by SIGKILL"))
    error = await failure(attempt)
    assert isinstance(error, EngineDeadError)
    assert str(error) == "flux-0: WorkerDied: worker 1 was killed by SIGKILL"
    assert not ready.session.is_ready


async def test_a_draining_stage_still_answers_and_takes_nothing_new(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(Draining())
    assert not ready.session.is_ready
    ready.say(Result(request_id="a", attempt=1, outputs=[], seed=1))
    assert len(await replies(attempt)) == 1


def test_a_stage_that_ended_is_ready_again_after_it_came_back(ready):
    ready.say(Draining())
    ready.session.tick(now=100.0)
    assert len(ready.told(Hello)) == 1
    ready.session.lost("the connection was lost")
    ready.session.opened(now=101.0)
    ready.say(HELLO, now=101.0)
    assert ready.session.is_ready


async def test_an_unavailable_stage_gets_no_requests_until_it_says_hello(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(msgspec.structs.replace(UNAVAILABLE, attempt=1))
    assert isinstance(await failure(attempt), UnavailableError)
    assert not ready.session.is_ready
    ready.session.tick(now=GREET_EVERY_S)
    ready.say(HELLO)
    assert ready.session.is_ready


async def test_a_retryable_error_of_an_unknown_reason_stays_retryable(ready):
    attempt = ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(
        Error(
            status="UNAVAILABLE",
            reason="MOVED",
            message="elsewhere",
            retryable=True,
            request_id="a",
            attempt=1,
        )
    )
    (found,) = await replies(attempt)
    assert found.retryable
    assert isinstance(found.error, InternalError)


async def test_a_stage_that_owes_an_answer_and_is_silent_is_pinged_then_given_up(ready):
    attempt = ready.session.submit(SUBMIT, [], now=100.0)
    ready.session.tick(now=100.0 + PING_AFTER_S - 1)
    assert ready.told(Ping) == []
    ready.session.tick(now=100.0 + PING_AFTER_S)
    ready.session.tick(now=100.0 + PING_AFTER_S + 1)
    assert ready.told(Ping) == [Ping()]
    ready.session.tick(now=100.0 + GIVE_UP_AFTER_S)
    assert "no word from it for 30 s" in str(await failure(attempt))
    assert ready.told(Cancel) == [Cancel(request_id="a", attempt=1)]
    assert not ready.session.is_ready


def test_any_word_of_the_stage_renews_its_time(ready):
    ready.session.submit(SUBMIT, [], now=0.0)
    ready.say(Ping(reply=True), now=20.0)
    ready.session.tick(now=GIVE_UP_AFTER_S)
    assert ready.session.in_flight == 1


def test_an_idle_stage_may_be_silent(ready):
    ready.session.tick(now=1000.0)
    assert ready.told(Ping) == []
    assert ready.session.is_ready


def test_a_ping_is_answered_with_its_token(ready):
    ready.say(Ping(token="t"))
    ready.say(Ping(token="u", reply=True))
    assert ready.told(Ping) == [Ping(token="t", reply=True)]


async def test_control_calls_are_told_apart_by_their_id(ready):
    first = ready.session.control("status", {}, now=0.0)
    second = ready.session.control("sleep", {"level": 1}, now=0.0)
    one, two = (each.control_id for each in ready.told(Control))
    ready.say(ControlReply(control_id=two, value=2))
    ready.say(ControlReply(control_id=one, error="no such method"))
    assert await second == 2
    with pytest.raises(InternalError, match="flux-0: no such method"):
        await first


async def test_a_reply_to_a_call_that_was_given_up_is_dropped(ready):
    reply = ready.session.control("status", {}, now=0.0)
    reply.cancel()
    ready.say(ControlReply(control_id="1", value=1))
    ready.say(ControlReply(control_id="99", value=1))
    assert reply.cancelled()


async def test_a_call_that_cannot_be_sent_fails(ready):
    ready.is_open = False
    with pytest.raises(UnavailableError, match="flux-0: not connected"):
        await ready.session.control("status", {}, now=0.0)


@pytest.mark.parametrize("frames", [[], [b"x"], [PROTOCOL, b"\xff"], [b"GET /", b"x"]])
def test_what_is_no_message_is_left_out(ready, frames, caplog):
    ready.session.received(frames, now=0.0)
    assert ready.session.is_ready
    assert "flux-0 sent what is no message" in caplog.text


def test_a_stage_of_another_version_says_why_it_refuses(wire):
    refusal = Error(status="INVALID_ARGUMENT", reason="INVALID_ARGUMENT", message="speak 2")
    wire.session.received([PROTOCOL[:-1] + bytes([VERSION + 1]), encode(refusal)[1]], now=0.0)
    assert str(wire.session.trouble) == "speak 2"
    assert not wire.session.is_ready
