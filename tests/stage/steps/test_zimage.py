"""The trained model step by step: the same pictures as from its own call, alone and in company."""

import time

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline

from diffusion_stage.errors import InternalError, InvalidArgumentError
from diffusion_stage.pipelines.steps import protocol
from diffusion_stage.worker.runner import DiffusionModelRunner
from tests.stage.builders import make_request

MODEL = "models/icons-zimage-tiny"
HEART, STAR = "a large red heart on a white background", "a small blue star"
CLOSE = 2  # of 255: sums of other lengths round differently


def ask(request_id, prompt=HEART, *, seed=0, output="image", **params):
    given = {"height": 64, "width": 64, "num_inference_steps": 4, "guidance_scale": 2.0} | params
    return make_request(request_id, seed=seed, output=output, params={"prompt": prompt, **given})


@pytest.fixture(scope="module")
def pipeline():
    pipeline = DiffusionPipeline.from_pretrained(MODEL)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.fixture
def runner(pipeline, monkeypatch):
    from diffusion_stage.pipelines import loader

    monkeypatch.setattr(loader, "load", lambda *args, **kwargs: pipeline)
    runner = DiffusionModelRunner(torch.device("cpu"), torch.float32)
    runner.load_model(None, pipeline_class=None)
    return runner


def alone(runner, request):
    return runner.execute_model(request, lambda step, total: None).tensors["images"]


def run(runner, arrivals):
    """Steps until all are done; `arrivals` are requests by the tick at which they come."""
    outputs, running, tick, sizes = {}, [], 0, []
    while running or arrivals:
        new = arrivals.pop(tick, [])
        taken = runner.execute_stepwise(new, running, [])
        sizes.append(sum(each.step_index > 0 for each in taken))
        running = [each.request_id for each in taken if not each.is_finished]
        outputs |= {each.request_id: each for each in taken if each.is_finished}
        tick += 1
    return outputs, sizes


def differ(a, b):
    return np.abs(np.asarray(a) * 255 - np.asarray(b) * 255).max()


def test_the_pipeline_declares_what_may_differ_in_a_batch(runner):
    found = runner._capabilities
    assert "guidance_scale" in found.step_batch.free
    assert found.step_batch.key == ("height", "width")
    assert found.request_batch.free == ("negative_prompt", "prompt")
    assert not found.has_chunks


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"guidance_scale": 0.0},
        {"negative_prompt": "a green tree"},
        {"cfg_normalization": True},
        {"cfg_truncation": 0.5},
        {"num_images_per_prompt": 2},
        {"sigmas": [1.0, 0.7, 0.2]},
        {"num_inference_steps": 1},
    ],
    ids=str,
)
def test_steps_give_the_same_picture_as_the_call(runner, params):
    request = ask("a", seed=3, **params)
    outputs, _ = run(runner, {0: [request]})
    assert outputs["a"].error is None
    assert differ(outputs["a"].output.tensors["images"], alone(runner, request)) <= CLOSE
    assert runner._steps.request_ids == []


def test_without_a_step_count_the_pipelines_own_is_taken(runner):
    """W11."""
    params = {"prompt": HEART, "height": 64, "width": 64}
    (taken,) = runner.execute_stepwise([make_request("a", params=params)], [], [])
    assert (taken.step_index, taken.total_steps) == (1, 50)


@pytest.mark.parametrize("output", ["tensor", "latent"])
def test_other_kinds_of_output(runner, output):
    request = ask("a", output=output)
    outputs, _ = run(runner, {0: [request]})
    torch.testing.assert_close(
        outputs["a"].output.tensors["images"], alone(runner, request), atol=1e-4, rtol=1e-4
    )


def test_requests_with_steps_and_guidance_of_their_own_share_a_batch(runner):
    requests = [
        ask("a", HEART, seed=1, num_inference_steps=6, guidance_scale=0.0),
        ask("b", STAR, seed=2, num_inference_steps=3, guidance_scale=4.0),
        ask("c", "a yellow moon on a black background", seed=3, num_inference_steps=5),
        ask("d", STAR, seed=4, num_images_per_prompt=2),
    ]
    outputs, sizes = run(runner, {0: requests[:2], 2: requests[2:]})
    assert max(sizes) >= 3
    for request in requests:
        made = outputs[request.request_id].output.tensors["images"]
        assert differ(made, alone(runner, request)) <= CLOSE, request.request_id


def test_newcomers_are_encoded_in_one_call(runner, monkeypatch):
    calls = []
    encode = runner._batching._encode
    monkeypatch.setattr(
        runner._batching, "_encode", lambda texts, n: calls.append(texts) or encode(texts, n)
    )
    prompts = [HEART, STAR, [HEART, STAR]]
    requests = [ask(f"n{i}", prompt, seed=i) for i, prompt in enumerate(prompts)]
    outputs, sizes = run(runner, {0: [ask("a", num_inference_steps=5)], 1: requests})
    assert sizes == [1, 4, 4, 4, 4]
    assert [HEART, STAR, HEART, STAR] in calls
    for request in requests:
        made = outputs[request.request_id].output.tensors["images"]
        assert differ(made, alone(runner, request)) <= CLOSE


def test_a_prompt_that_spoils_the_call_fails_alone(runner, monkeypatch):
    encode = runner._batching._encode

    def spoiled(texts, length):
        if "bad" in texts:
            raise RuntimeError("no such word")
        return encode(texts, length)

    monkeypatch.setattr(runner._batching, "_encode", spoiled)
    outputs, _ = run(runner, {0: [ask("a"), ask("b", STAR), ask("c", "bad")]})
    assert "no such word" in str(outputs["c"].error)
    assert outputs["a"].error is outputs["b"].error is None


@pytest.mark.parametrize(("is_slow", "expected"), [(True, [1, 2, 3, 4]), (False, [1, 4, 4, 4])])
def test_newcomers_are_encoded_for_no_longer_than_a_step(runner, monkeypatch, is_slow, expected):
    """7.3/33: a running batch waits for a bounded time; slow encodings come one at a time."""
    monkeypatch.delattr(type(runner._batching), "encode_together")
    encode, denoise = runner._batching.prepare_encode, runner._batching.denoise_step

    def slow_encode(state):
        time.sleep(0.3 if is_slow else 0)
        encode(state)

    def slow_step(batch):
        time.sleep(0 if is_slow else 1)
        return denoise(batch)

    monkeypatch.setattr(runner._batching, "prepare_encode", slow_encode)
    monkeypatch.setattr(runner._batching, "denoise_step", slow_step)
    arrivals = {0: [ask("a", num_inference_steps=5)], 1: [ask(f"n{i}") for i in range(3)]}
    _, sizes = run(runner, arrivals)
    assert sizes[:4] == expected


def test_the_batch_is_kept_while_the_same_requests_run(runner):
    runner.execute_stepwise([ask("a"), ask("b")], [], [])
    first = runner._steps._batch
    runner.execute_stepwise([], ["a", "b"], [])
    assert runner._steps._batch is first
    runner.execute_stepwise([], ["a"], ["b"])
    assert runner._steps._batch is not first


def test_what_is_finished_is_forgotten_even_when_nothing_runs(runner):
    """W33: nothing of an aborted request stays on the device."""
    runner.execute_stepwise([ask("a")], [], [])
    assert runner.execute_stepwise([], [], ["a"]) == []
    assert runner._steps.request_ids == []
    assert runner._steps._batch is None


def test_an_id_may_come_again_in_the_step_that_forgets_it(runner):
    runner.execute_stepwise([ask("a", HEART, seed=1)], [], [])
    again = ask("a", STAR, seed=2)
    (taken,) = runner.execute_stepwise([again], [], ["a"])
    assert taken.step_index == 1
    outputs, _ = run_on(runner, ["a"])
    assert differ(outputs["a"].output.tensors["images"], alone(runner, again)) <= CLOSE


def run_on(runner, running):
    outputs = {}
    while running:
        taken = runner.execute_stepwise([], running, [])
        running = [each.request_id for each in taken if not each.is_finished]
        outputs |= {each.request_id: each for each in taken if each.is_finished}
    return outputs, []


@pytest.mark.parametrize("given", [{"joint_attention_kwargs": {}}, {"prompt_embeds": [1.0]}])
def test_a_parameter_that_no_step_would_heed_is_refused_by_name(runner, given):
    outputs, _ = run(runner, {0: [ask("bad", **given), ask("a")]})
    assert isinstance(outputs["bad"].error, InvalidArgumentError)
    assert outputs["bad"].error.field == next(iter(given))
    assert outputs["a"].error is None


def test_a_request_that_cannot_be_encoded_fails_alone(runner):
    bad = ask("bad", sigmas=[[1.0]])
    outputs, _ = run(runner, {0: [ask("a"), bad]})
    assert outputs["a"].error is None
    assert outputs["bad"].error is not None


def test_a_request_that_poisons_the_step_fails_alone(runner, pipeline, monkeypatch):
    """Appendix B 6: the others take the step without it."""
    transformer = pipeline.transformer
    forward = transformer.forward

    def poisoned(samples, *args, **kwargs):
        if any(each.abs().max() > 100 for each in samples):
            raise RuntimeError("poison")
        return forward(samples, *args, **kwargs)

    monkeypatch.setattr(transformer, "forward", poisoned)
    monkeypatch.setattr(runner._batching, "_noise", poison(runner._batching._noise, of="bad"))
    good = ask("a", seed=5)
    outputs, _ = run(runner, {0: [good, ask("bad"), ask("b", STAR)]})
    assert isinstance(outputs["bad"].error, InternalError)
    assert "RuntimeError: poison" in str(outputs["bad"].error)
    assert outputs["b"].error is None
    assert differ(outputs["a"].output.tensors["images"], alone(runner, good)) <= CLOSE


def poison(noise, *, of):
    def poisoned(state, *, rows):
        factor = 1000 if state.request_id == of else 1
        return noise(state, rows=rows) * factor

    return poisoned


def test_a_request_that_nobody_knows_is_an_error(runner):
    (taken,) = runner.execute_stepwise([], ["ghost"], [])
    assert taken.is_finished
    assert "ghost" in str(taken.error)


def test_several_requests_in_one_call_give_the_same_pictures(runner):
    requests = [ask("a", HEART, seed=1), ask("b", [STAR, HEART], seed=2), ask("c", STAR, seed=3)]
    steps = []
    outputs = runner.execute_model_batch(requests, lambda step, total: steps.append((step, total)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for request, output in zip(requests, outputs, strict=True):
        assert differ(output.tensors["images"], alone(runner, request)) <= CLOSE


def test_a_pipeline_that_nobody_knows_has_no_batches():
    assert protocol.find(object()) is None
