"""Replicas that fail, and requests that are answered all the same: once."""

import asyncio

import numpy as np
import pytest

from diffusion_stage.client import AsyncStageClient, Part, Progress
from diffusion_stage.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from diffusion_stage.wire.codec import PROTOCOL, encode
from diffusion_stage.wire.messages import (
    Draining,
    EngineDead,
    Error,
    Hello,
    Result,
    Submit,
)
from tests.fakes.stage import FakeStage, answer, fail, hold, in_turn, pixels

RETRYABLE = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "ENGINE_DEAD")
FINAL = {
    "INTERNAL": InternalError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "ALREADY_EXISTS": AlreadyExistsError,
}


async def die(task):
    task.accept()
    task.stage.die()


@pytest.fixture
async def pair():
    """Two stages; the first is the one that a new client turns to."""
    async with FakeStage("stage-0") as first, FakeStage("stage-1") as second:
        yield first, second


@pytest.fixture
async def both(pair):
    async with AsyncStageClient(each.address for each in pair) as client:
        await client.status()
        yield client


async def chosen(client, pair):
    """The stage that gets the next request, and the other one."""
    name = (await client.generate("whose turn is it?")).replica
    return pair if name == "stage-1" else pair[::-1]


@pytest.mark.parametrize("reason", RETRYABLE)
async def test_a_retryable_error_is_retried_on_another_replica(both, pair, reason):
    failing, other = await chosen(both, pair)
    failing.script = fail(reason)
    generation = await both.generate("a", request_id="mine", seed=7)
    assert (generation.replica, generation.attempts) == (other.name, 2)
    assert [each.submit.request_id for each in other.tasks[-1:]] == ["mine"]
    assert other.tasks[-1].submit.seed == failing.tasks[-1].submit.seed == 7


@pytest.mark.parametrize("reason", FINAL)
async def test_any_other_error_is_the_callers(both, pair, reason):
    failing, other = await chosen(both, pair)
    failing.script = fail(reason)
    with pytest.raises(FINAL[reason], match="as scripted"):
        await both.generate("a", request_id="mine")
    assert all(each.submit.request_id != "mine" for each in other.tasks)


@pytest.mark.parametrize("reason", RETRYABLE)
async def test_the_only_replica_is_tried_again(client, stage, reason):
    stage.script = in_turn(fail(reason), fail(reason), answer)
    assert (await client.generate("a")).attempts == 3


async def test_every_attempt_asks_for_the_same_seed(client, stage):
    stage.script = in_turn(fail("UNAVAILABLE"), answer)
    generation = await client.generate("a")
    assert {each.submit.seed for each in stage.tasks} == {generation.seed}


async def test_a_lost_connection_is_retried_on_another_replica_at_once(both, pair):
    failing, other = await chosen(both, pair)
    failing.script = die
    async with asyncio.timeout(1):
        generation = await both.generate("a")
    assert (generation.replica, generation.attempts) == (other.name, 2)


async def test_the_only_replica_is_awaited_after_a_lost_connection(client, stage):
    stage.script = in_turn(die, answer)
    request = asyncio.create_task(client.generate("a"))
    await stage.has_heard(Submit)
    await stage.sees(lambda: not stage.is_alive)
    stage.start()
    assert (await request).attempts == 2


async def test_last_words_count_more_than_the_end_of_the_connection(client, stage):
    async def script(task):
        task.result()
        await stage.flushed()
        stage.die()

    stage.script = script
    assert (await client.generate("a")).attempts == 1


async def test_a_dead_engine_is_left_at_once(both, pair):
    failing, other = await chosen(both, pair)
    failing.script = hold
    request = asyncio.create_task(both.generate("a"))
    await failing.has_heard_prompt("a")
    failing.tell_all(EngineDead(reason="WorkerDied", message="worker 0 was killed"))
    assert (await request).replica == other.name
    assert (await both.generate("b")).replica == other.name
    assert (await both.generate("c")).replica == other.name


async def test_a_draining_stage_answers_what_it_has_and_gets_nothing_new(both, pair):
    draining, other = await chosen(both, pair)
    draining.script = hold
    accepted = asyncio.create_task(both.generate("a"))
    await draining.has_heard_prompt("a")
    draining.tell_all(Draining())
    await draining.flushed()
    others = [(await both.generate("b")).replica for _ in range(3)]
    assert others == [other.name] * 3
    draining.tasks[-1].result()
    assert (await accepted).replica == draining.name


async def test_a_stage_that_is_loading_is_waited_for(stage):
    stage.ready = False
    async with AsyncStageClient(stage.address, connect_timeout_s=0) as client:
        await client.status()  # it has answered, so the time to connect counts no more
        request = asyncio.create_task(client.generate("a"))
        await stage.has_heard(Hello, 2)
        assert stage.of(Submit) == []
        stage.ready = True
        assert (await request).attempts == 1


async def test_only_the_first_of_two_answers_counts(client, stage):
    async def twice(task):
        task.result(pixels(1))
        task.result(pixels(2))

    stage.script = twice
    (image,) = (await client.generate("a")).images
    np.testing.assert_array_equal(np.asarray(image), pixels(1)[0])
    assert (await client.generate("b")).attempts == 1


async def test_an_answer_to_an_abandoned_attempt_is_dropped(both, pair):
    failing, other = await chosen(both, pair)
    failing.script = fail("UNAVAILABLE")
    other.script = hold
    request = asyncio.create_task(both.generate("a"))
    await other.has_heard_prompt("a")
    failing.tasks[-1].result(pixels(1))
    await failing.flushed()
    assert not request.done()
    other.tasks[-1].result(pixels(2))
    (image,) = (await request).images
    np.testing.assert_array_equal(np.asarray(image), pixels(2)[0])


async def test_an_answer_with_a_stale_attempt_number_is_dropped(client, stage):
    async def stale(task):
        stale = Result(request_id=task.submit.request_id, attempt=1, outputs=[], seed=0)
        stage.say(task.client, stale)
        task.result()

    stage.script = in_turn(fail("UNAVAILABLE"), stale)
    generation = await client.generate("a", seed=5)
    assert (generation.seed, generation.attempts) == (5, 2)


async def test_the_echo_of_our_own_attempt_is_waited_out(client, stage):
    stage.script = in_turn(fail("UNAVAILABLE"), fail("ALREADY_EXISTS"), answer)
    assert (await client.generate("a")).attempts == 3


async def test_garbage_from_a_stage_is_left_out(client, stage):
    async def garbage(task):
        for frames in (
            [b""],
            [PROTOCOL, b"\xff" * 99],
            [b"HTTP/1.1 400"],
            [PROTOCOL, b"\x80", b""],
        ):
            stage.say_raw(task.client, frames)
        task.result()

    stage.script = garbage
    assert (await client.generate("a")).attempts == 1


async def test_the_last_error_is_told_when_time_is_up(client, stage):
    stage.script = fail("RESOURCE_EXHAUSTED", message="64 requests wait")
    with pytest.raises(ResourceExhaustedError, match=r"64 requests wait \(attempt \d+; then: "):
        await client.generate("a", timeout_s=3)


async def test_a_stage_that_is_not_there_is_told_in_time():
    address = "tcp://127.0.0.1:1"
    async with AsyncStageClient(address, connect_timeout_s=0.05) as client:
        with pytest.raises(UnavailableError, match=f"{address}: no connection"):
            await client.generate("a")


async def test_a_server_that_is_no_stage_is_told_in_time():
    async def talk_http(reader, writer):
        await reader.readexactly(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
        writer.close()

    async with await asyncio.start_server(talk_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = AsyncStageClient(f"tcp://127.0.0.1:{port}", connect_timeout_s=0.5)
        async with client:
            with pytest.raises(UnavailableError, match=r"no ZMQ handshake|connection was lost"):
                await client.generate("a")


async def test_stages_of_another_protocol_version_are_told_at_once(stage):
    stage.greets = False
    async with AsyncStageClient(stage.address) as client:
        request = asyncio.create_task(client.generate("a"))
        await stage.has_heard(Hello)
        refusal = Error(
            status="INVALID_ARGUMENT", reason="INVALID_ARGUMENT", message="speak version 2"
        )
        (identity,) = stage.clients
        stage.say_raw(identity, [PROTOCOL[:-1] + b"\x02", encode(refusal)[1]])
        with pytest.raises(InvalidArgumentError, match="speak version 2"):
            await request


async def test_parts_are_not_repeated_by_a_second_attempt(client, stage):
    async def breaks_off(task):
        task.chunk(0, np.full(1, 0.0))
        task.progress(1, 2)
        task.fail("UNAVAILABLE")

    async def goes_through(task):
        for index in range(3):
            task.chunk(index, np.full(1, float(index)))
        task.result()

    stage.script = in_turn(breaks_off, goes_through)
    events = [event async for event in client.stream("a")]
    assert [each.index for each in events if isinstance(each, Part)] == [0, 1, 2]
    assert len([each for each in events if isinstance(each, Progress)]) == 1
