"""Requests of an asyncio program, as long as nothing fails."""

import asyncio

import numpy as np
import pytest
from PIL import Image

from diffusion_stage.client import AsyncStageClient, Generation, Part, Progress
from diffusion_stage.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from diffusion_stage.wire.codec import encode
from diffusion_stage.wire.messages import Cancel, Control, Result, Submit, Tensor
from diffusion_stage.wire.tensors import array
from tests.fakes.stage import FakeStage, fail, hold, in_turn, pixels


async def test_a_prompt_becomes_an_image(client):
    generation = await client.generate("a red circle", seed=7)
    (image,) = generation.images
    np.testing.assert_array_equal(np.asarray(image), pixels(7)[0])
    assert (generation.seed, generation.attempts) == (7, 1)
    assert (generation.replica, generation.model) == ("stage-0", "fake/model")
    assert generation.metrics == {"total": 1.0}


async def test_what_the_caller_asks_for_is_what_the_stage_gets(client, stage):
    latents = np.ones((1, 4), np.float32)
    await client.generate(
        ["a", "b"],
        seed=7,
        output="tensor",
        priority=-1,
        request_id="mine",
        deadline_s=60,
        height=64,
        image=Image.new("RGB", (2, 2)),
        latents=latents,
    )
    (task,) = stage.tasks
    submit = task.submit
    assert submit.params == {"prompt": ["a", "b"], "height": 64}
    assert (submit.request_id, submit.attempt, submit.seed) == ("mine", 1, 7)
    assert (submit.output, submit.priority) == ("tensor", -1)
    assert 59 < submit.deadline_s <= 60
    assert [(each.name, each.kind) for each in submit.inputs] == [
        ("image", "image"),
        ("latents", "tensor"),
    ]
    np.testing.assert_array_equal(array(submit.inputs[1], task.payload[1]), latents)


async def test_progress_is_reported_by_step(client):
    seen = []
    await client.generate("a", on_progress=seen.append)
    assert [(each.step, each.total_steps) for each in seen] == [(1, 2), (2, 2)]


async def test_an_error_in_the_callers_callback_cancels_the_request(client, stage):
    async def script(task):
        task.accept()
        task.progress(1, 2)

    def broken(progress):
        raise ZeroDivisionError

    stage.script = script
    with pytest.raises(ZeroDivisionError):
        await client.generate("a", on_progress=broken)
    await stage.has_heard(Cancel)


async def test_a_stream_gives_parts_in_order_and_the_generation_last(client, stage):
    async def script(task):
        task.accept()
        task.chunk(0, np.zeros(1, np.float32))
        task.progress(1, 1)
        task.chunk(1, np.ones(1, np.float32))
        task.result()

    stage.script = script
    events = [event async for event in client.stream("a")]
    assert [type(each) for each in events] == [Part, Progress, Part, Generation]
    assert [each.outputs["part"].tolist() for each in events if isinstance(each, Part)] == [
        [0],
        [1],
    ]


async def test_cancelling_the_task_cancels_the_request(client, stage):
    stage.script = hold
    request = asyncio.create_task(client.generate("a", request_id="mine"))
    await stage.has_heard(Submit)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert await stage.has_heard(Cancel) == [Cancel(request_id="mine", attempt=1)]


async def test_a_late_answer_to_a_former_request_of_the_id_is_not_this_ones(client, stage):
    """DIFF-RUNTIME-INV-005: an id may come again before its cancelled request has ended."""
    stage.script = hold
    former = asyncio.create_task(client.generate("former", request_id="x"))
    (first,) = await stage.has_heard(Submit)
    former.cancel()
    await stage.has_heard(Cancel)
    again = asyncio.create_task(client.generate("again", request_id="x", seed=2))
    _, second = await stage.has_heard(Submit, 2)
    assert first.attempt != second.attempt
    late, task = stage.tasks
    late.fail("CANCELLED")
    task.result()
    generation = await again
    np.testing.assert_array_equal(generation.outputs["images"], pixels(2))
    assert generation.attempts == 1


async def test_closing_a_stream_cancels_the_request(client, stage):
    async def script(task):
        task.accept()
        task.progress(1, 2)

    stage.script = script
    events = client.stream("a", request_id="mine")
    await anext(events)
    await events.aclose()
    assert await stage.has_heard(Cancel) == [Cancel(request_id="mine", attempt=1)]


async def test_a_request_without_a_result_in_time_is_cancelled(client, stage):
    stage.script = hold
    with pytest.raises(DeadlineExceededError, match=r"stage-0: no result within 0\.2 s"):
        await client.generate("a", timeout_s=0.2)
    await stage.has_heard(Cancel)


async def test_a_deadline_bounds_the_wait_too(client, stage):
    stage.script = hold
    with pytest.raises(DeadlineExceededError):
        await client.generate("a", deadline_s=0.2)


async def test_an_error_names_the_field_at_fault(client, stage):
    stage.script = fail("INVALID_ARGUMENT", message="height is 7", field="height")
    with pytest.raises(InvalidArgumentError, match="height is 7") as caught:
        await client.generate("a", height=7)
    assert caught.value.field == "height"
    assert len(stage.of(Submit)) == 1


async def test_a_malformed_output_is_an_internal_error(client, stage):
    async def script(task):
        sound = Tensor(name="x", kind="sound", dtype="uint8", shape=(1,))
        result = Result(**task.key, outputs=[sound], seed=1)
        stage.say_raw(task.client, encode(result, [b"x"]))

    stage.script = script
    with pytest.raises(InternalError, match="stage-0 sent a malformed output: x: kind 'sound'"):
        await client.generate("a")


async def test_outputs_that_are_no_images_come_as_arrays(client, stage):
    async def script(task):
        task.result(np.ones((2, 2), np.float16), kind="tensor")

    stage.script = script
    generation = await client.generate("a", output="latent")
    assert generation.images == []
    assert generation.outputs["images"].tolist() == [[1, 1], [1, 1]]


async def test_a_request_id_under_way_is_not_given_twice(client, stage):
    stage.script = hold
    first = asyncio.create_task(client.generate("a", request_id="mine"))
    await stage.has_heard(Submit)
    with pytest.raises(AlreadyExistsError, match="'mine' is under way already"):
        await client.generate("a", request_id="mine")
    stage.tasks[0].result()
    await first
    stage.script = in_turn(hold)


async def test_a_parameter_that_the_wire_does_not_carry_is_refused_here(client, stage):
    with pytest.raises(InvalidArgumentError, match="strength"):
        await client.generate("a", strength=object())
    assert stage.of(Submit) == []


async def test_requests_go_to_the_replica_with_the_fewest_under_way(clients, stages):
    for each in stages:
        each.script = hold
    requests = [asyncio.create_task(clients.generate("a")) for _ in range(9)]
    for each in stages:
        await each.has_heard(Submit, 3)
        for task in each.tasks:
            task.result()
    assert len(await asyncio.gather(*requests)) == 9
    assert [len(each.of(Submit)) for each in stages] == [3, 3, 3]


async def test_one_by_one_requests_take_turns(clients, stages):
    for _ in range(6):
        await clients.generate("a")
    assert [len(each.of(Submit)) for each in stages] == [2, 2, 2]


async def test_control_asks_every_replica(clients, stages):
    for number, each in enumerate(stages):
        each.control = lambda control, number=number: [number, control.method, control.args]
    assert await clients.control("sleep", level=1) == {
        f"stage-{number}": [number, "sleep", {"level": 1}] for number in range(3)
    }


async def test_control_asks_the_one_that_is_named(clients, stages):
    assert list(await clients.control("status", replica="stage-1")) == ["stage-1"]
    assert [len(each.of(Control)) for each in stages] == [1, 2, 1]  # one from connecting
    with pytest.raises(UnavailableError, match="no such stage is connected"):
        await clients.control("status", replica="stage-9")


async def test_a_control_call_without_a_reply_ends_in_time(client, stage):
    await client.generate("a")
    stage.control = None
    with pytest.raises(UnavailableError, match=r"stage-0: no reply to sleep in 0\.1 s"):
        await client.control("sleep", timeout_s=0.1)


async def test_status_tells_replicas_that_are_ready_and_those_that_are_not():
    async with FakeStage("flux-0") as up, FakeStage("flux-1", ready=False) as loading:
        addresses = [up.address, loading.address, "tcp://127.0.0.1:1"]
        async with AsyncStageClient(addresses) as client:
            found = {each.name: each for each in await client.status(timeout_s=0.5)}
    assert found["flux-0"].is_ready
    assert found["flux-0"].details == {"queue": 0}
    assert (found["flux-1"].is_connected, found["flux-1"].is_ready) == (True, False)
    assert not found["tcp://127.0.0.1:1"].is_connected


async def test_a_closed_client_says_so(stage):
    client = AsyncStageClient(stage.address)
    await client.generate("a")
    await client.close()
    with pytest.raises(UnavailableError, match="this client was closed"):
        await client.generate("a")


async def test_closing_fails_what_is_under_way_and_cancels_it(stage):
    stage.script = hold
    async with AsyncStageClient(stage.address) as client:
        request = asyncio.create_task(client.generate("a"))
        await stage.has_heard(Submit)
    with pytest.raises(UnavailableError, match="this client was closed"):
        await request
    await stage.has_heard(Cancel)


async def test_closing_twice_is_the_same_as_once(stage):
    client = AsyncStageClient(stage.address)
    await client.close()
    await client.close()
