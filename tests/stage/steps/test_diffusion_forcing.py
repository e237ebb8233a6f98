"""Video in blocks: the frames of the pipeline's own call, whole or in chunks, in any company."""

import numpy as np
import pytest
import torch

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.pipelines import loader
from diffusion_stage.worker.runner import DiffusionModelRunner
from tests.models import video
from tests.stage.builders import make_request

FRAMES, BLOCKS = 17, 5  # 5 latent frames, each a block of its own
CLOSE = 1e-3


def ask(request_id, prompt="a cat", *, seed=0, **params):
    given = {
        "height": 32,
        "width": 32,
        "num_frames": FRAMES,
        "num_inference_steps": 3,
        "guidance_scale": 3.0,
        "ar_step": 1,
        "causal_block_size": 1,
        "max_sequence_length": 16,
    }
    return make_request(request_id, seed=seed, params={"prompt": prompt, **given, **params})


@pytest.fixture(scope="module")
def pipeline():
    return video.make()


@pytest.fixture
def make_runner(pipeline, monkeypatch):
    monkeypatch.setattr(loader, "load", lambda *args, **kwargs: pipeline)

    def make(*, is_streaming):
        runner = DiffusionModelRunner(torch.device("cpu"), torch.float32, is_streaming=is_streaming)
        runner.load_model(None, pipeline_class=None)
        return runner

    return make


def run(runner, *requests):
    """Every output of each request, in order."""
    outputs = {request.request_id: [] for request in requests}
    taken = runner.execute_stepwise(requests, [], [])
    while True:
        for each in taken:
            assert each.error is None, each.error
            if each.output is not None:
                outputs[each.request_id].append(each.output.tensors["frames"])
        running = [each.request_id for each in taken if not each.is_finished]
        if not running:
            return outputs
        taken = runner.execute_stepwise([], running, [])


def alone(runner, request):
    return runner.execute_model(request, lambda step, total: None).tensors["frames"]


def test_it_says_that_it_has_chunks(make_runner):
    runner = make_runner(is_streaming=True)
    assert runner._capabilities.has_chunks
    assert "num_frames" in runner._capabilities.step_batch.key


@pytest.mark.parametrize(
    "params",
    [{}, {"ar_step": 0}, {"guidance_scale": 1.0}, {"causal_block_size": 5}, {"fps": 16}],
    ids=str,
)
def test_steps_give_the_same_frames_as_the_call(make_runner, params):
    """Without streaming: one final result."""
    runner = make_runner(is_streaming=False)
    request = ask("a", seed=1, **params)
    (frames,) = run(runner, request)["a"]
    np.testing.assert_allclose(frames, alone(runner, request), atol=CLOSE)


def test_chunks_are_the_video_as_it_becomes_final(make_runner):
    runner = make_runner(is_streaming=True)
    request = ask("a", seed=1)
    chunks = run(runner, request)["a"]
    assert [each.shape[1] for each in chunks] == [1, 4, 4, 4, 4]
    whole = alone(runner, request)
    np.testing.assert_allclose(np.concatenate(chunks, axis=1), whole, atol=CLOSE)


def test_a_block_of_several_frames_is_one_chunk(make_runner):
    runner = make_runner(is_streaming=True)
    chunks = run(runner, ask("a", causal_block_size=5, ar_step=1))["a"]
    assert [each.shape[1] for each in chunks] == [FRAMES]


def test_chunks_of_latents(make_runner):
    runner = make_runner(is_streaming=True)
    request = make_request("a", params=ask("a").params, output="latent")
    chunks = run(runner, request)["a"]
    assert [each.shape[2] for each in chunks] == [1] * BLOCKS
    torch.testing.assert_close(
        torch.cat(chunks, dim=2), alone(runner, request), atol=CLOSE, rtol=CLOSE
    )


def test_requests_share_steps_and_keep_their_own_frames(make_runner):
    runner = make_runner(is_streaming=True)
    requests = [
        ask("a", seed=1),
        ask("b", "a dog", seed=2, guidance_scale=1.0, num_inference_steps=4),
        ask("c", "a bird", seed=3, ar_step=2, negative_prompt="a cat"),
    ]
    outputs = run(runner, *requests)
    for request in requests:
        frames = np.concatenate(outputs[request.request_id], axis=1)
        np.testing.assert_allclose(frames, alone(runner, request), atol=CLOSE)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"num_frames": 16}, "num_frames"),
        ({"causal_block_size": 2}, "causal_block_size"),
        ({"overlap_history": 5}, "overlap_history"),
    ],
)
def test_what_cannot_be_done_in_steps_is_refused_by_name(make_runner, params, words):
    runner = make_runner(is_streaming=False)
    (taken,) = runner.execute_stepwise([ask("a", **params)], [], [])
    assert isinstance(taken.error, InvalidArgumentError)
    assert taken.error.field == words
