"""Stages in step mode, seen from outside: company, chunks, clients that leave, deaths, limits."""

import os
import signal
import time

import numpy as np
import pytest
import torch

from diffusion_stage.client import AsyncStageClient, Part
from diffusion_stage.wire.messages import Cancel, Chunk, Error, Progress
from diffusion_stage.wire.tensors import array
from tests.fakes.pipelines import picture
from tests.models import video

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PROMPT = "a red circle"
PROMPTS = ["a red circle", "a blue square", "a green triangle", "a yellow star"]
CLOSE = 2  # of 255: sums of other lengths round differently
ENDLESS = {"num_inference_steps": 10_000, "step_s": 0.02}


@pytest.fixture(scope="module")
def stage(serve_module):
    """Two workers, up to two requests on each, chunks as they are made."""
    flags = {"num_gpus": 2, "max_num_seqs": 2, "step_execution": True, "streaming_output": True}
    return serve_module("Steps", max_queue=4, **flags).wait_ready()


@pytest.fixture
def client(stage):
    with stage.client() as client:
        yield client
    stage.wait_idle()


def test_requests_join_while_others_run(client, stage):
    client.accepted("long", prompt=PROMPT, seed=1, num_inference_steps=60, step_s=0.02)
    client.step_of("long")
    for seed in range(6):
        client.accepted(f"{seed}", prompt=PROMPT, seed=seed, step_s=0.02)
    images = client.images_of(["long", *(f"{seed}" for seed in range(6))])
    for seed in range(6):
        np.testing.assert_array_equal(images[f"{seed}"], picture(PROMPT, seed))
    np.testing.assert_array_equal(images["long"], picture(PROMPT, 1))
    waits = next(
        line for line in stage.get("/metrics")[1].splitlines() if "queue_seconds_sum" in line
    )
    assert 0 < float(waits.split()[1]) < 300, "the warm-up waited for nothing"
    batches = stage.status["batches"]
    assert batches["2"] > 0
    assert (
        f'stage_batch_size_bucket{{le="2"}} {sum(batches.values())}.0' in stage.get("/metrics")[1]
    )


def test_chunks_come_while_it_runs(client):
    client.accepted("a", prompt=PROMPT, seed=3, chunks=3, num_inference_steps=6, step_s=0.05)
    for index in range(3):
        chunk, (payload,) = client.hear_all(Chunk)
        assert chunk.index == index
        np.testing.assert_array_equal(array(chunk.outputs[0], payload), [[index + 1.0] * 2])
    assert client.errors() == []
    np.testing.assert_array_equal(client.image_of("a"), picture(PROMPT, 3))


def test_an_abort_is_answered_before_the_step_at_hand_is_over(client, stage):
    """RUNTIME-RULE-3: at once for whoever waits, and within a step for the device."""
    client.accepted("a", num_inference_steps=10_000, step_s=0.5)
    client.step_of("a")
    asked_at = time.monotonic()
    client.say(Cancel(request_id="a", attempt=1))
    error = client.hear(Error)
    assert error.status == "CANCELLED"
    assert time.monotonic() - asked_at < 0.4
    client.accepted("a", attempt=2, prompt=PROMPT, seed=4)
    np.testing.assert_array_equal(client.image_of("a"), picture(PROMPT, 4))


def test_a_poisoned_step_costs_its_request_alone(client):
    """RUNTIME-RULE-6."""
    client.accepted("good", prompt=PROMPT, seed=5, num_inference_steps=30, step_s=0.02)
    client.accepted("other", prompt=PROMPT, seed=6, num_inference_steps=30, step_s=0.02)
    client.accepted("poison", fault="runtime error", fault_at=3)
    error = client.end_of("poison")
    assert (error.status, error.message) == ("INTERNAL", "RuntimeError: a bug in the model")
    np.testing.assert_array_equal(client.image_of("good"), picture(PROMPT, 5))
    np.testing.assert_array_equal(client.image_of("other"), picture(PROMPT, 6))


def test_large_outputs_of_several_requests_end_in_the_same_step(client):
    for request_id in "abcd":
        client.accepted(request_id, output_mb=8, output="tensor", step_s=0.05)
    for request_id in "abcd":
        assert client.end_of(request_id).outputs[0].shape == (8 << 20,)


def test_the_requests_of_a_client_that_is_gone_free_their_places(client, stage):
    with stage.client() as leaving:
        for request_id in "abcdef":
            leaving.accepted(request_id, **ENDLESS)
        leaving.step_of("a")
    client.accepted("after", prompt=PROMPT, seed=7)
    np.testing.assert_array_equal(client.image_of("after", timeout_s=30), picture(PROMPT, 7))
    stage.wait_idle()


def test_detached_requests_go_on_to_their_ends(serve):
    """A5."""
    stage = serve(consumer_drop="detach").wait_ready()
    with stage.client() as leaving:
        leaving.accepted("a", step_s=0.3)
        leaving.step_of("a")
    with stage.client() as client:
        client.submit("a")
        assert client.end_of("a").status == "ALREADY_EXISTS", "it still runs"
        stage.wait_idle()
        client.accepted("a", attempt=2, prompt=PROMPT, seed=8)
        np.testing.assert_array_equal(client.image_of("a"), picture(PROMPT, 8))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"step_execution": True}, "Pipeline does not run step by step"),
        ({"max_num_seqs": 2}, "--max-num-seqs 2: Pipeline declares no request batches"),
    ],
)
def test_a_mode_that_the_pipeline_does_not_have_fails_the_start(serve, flags, words):
    """A14."""
    stage = serve(**flags)
    assert stage.end(timeout_s=240) == 64, stage.log
    assert words in stage.last_words["msg"]
    assert stage.last_words["reason"] == "ConfigInvalid"


def test_a_worker_that_dies_in_a_step_is_told_to_every_client(serve):
    stage = serve("Steps", num_gpus=2, max_num_seqs=2, step_execution=True).wait_ready()
    pid = stage.workers()[1]
    with stage.client() as client:
        for request_id in "abc":
            client.accepted(request_id, **ENDLESS)
        for request_id in "abc":
            client.step_of(request_id)
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        ends = [client.hear(Error) for _ in range(3)]
        assert time.monotonic() - killed_at <= 1.0
    assert {end.reason for end in ends} == {"ENGINE_DEAD"}
    assert stage.end() == 71, stage.log
    assert (stage.last_words["rank"], stage.last_words["signal"]) == (1, 9)
    assert stage.last_words["step"] >= 1


def test_the_same_seed_gives_the_same_image_alone_and_in_any_batch(serve, icons_model):
    """With the trained model; requests have steps and guidance of their own."""
    given = {"height": 64, "width": 64}
    jobs = [
        (prompt, {"seed": n, "num_inference_steps": 4 + n, "guidance_scale": 1.0 + n, **given})
        for n, prompt in enumerate(PROMPTS)
    ]
    stage = serve(None, model=icons_model, step_execution=True, max_num_seqs=4).wait_ready()
    with stage.client() as client:
        alone = []
        for prompt, params in jobs:
            client.submit("alone", prompt=prompt, **params)
            alone.append(client.image_of("alone").astype(int))
        for turn in range(3):
            for number, (prompt, params) in enumerate(jobs):
                client.submit(f"{turn} {number}", prompt=prompt, **params)
        turns = [(turn, number) for turn in range(3) for number in range(len(jobs))]
        images = client.images_of([f"{turn} {number}" for turn, number in turns])
        for turn, number in turns:
            assert np.abs(images[f"{turn} {number}"] - alone[number]).max() <= CLOSE
        progress = [m for m, _ in client.heard if isinstance(m, Progress)]
        assert {m.total_steps for m in progress if m.request_id == "0 3"} == {7}
    assert stage.status["batches"]["4"] > 0


async def test_a_video_is_streamed_in_blocks_and_comes_whole(serve):
    """Diffusion forcing, from the manifest's `streamingOutput` to the client's array."""
    stage = serve(pipeline_class="tests.models.video:Loader", streaming_output=True).wait_ready()
    asked = {
        "prompt": "a cat",
        "seed": 1,
        "height": 32,
        "width": 32,
        "num_frames": 17,
        "num_inference_steps": 3,
        "ar_step": 1,
        "causal_block_size": 1,
        "max_sequence_length": 16,
    }
    async with AsyncStageClient(stage.address) as client:
        events = [event async for event in client.stream(**asked)]
        made = await client.generate(**asked)
    parts = [event.outputs["frames"] for event in events if isinstance(event, Part)]
    assert [part.shape for part in parts] == [(1, 1, 32, 32, 3), *[(1, 4, 32, 32, 3)] * 3]
    last = events[-1].outputs["frames"]
    np.testing.assert_array_equal(made.outputs["frames"], np.concatenate([*parts, last], axis=1))
    generator = torch.Generator("cpu").manual_seed(asked.pop("seed"))
    plain = video.make()(**asked, generator=generator).frames
    off = made.outputs["frames"].astype(int) - np.round(plain * 255)
    assert np.abs(off).max() <= CLOSE
