"""SIGTERM: what was accepted is answered, what comes later is sent elsewhere."""

import os
import signal
import time

import numpy as np
import pytest

from diffusion_stage.wire.messages import Draining, Error, Result
from tests.fakes.pipelines import picture

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PROMPT = "a red circle"


def test_probes_follow_the_life_of_a_stage(serve):
    """From the start to the end of one stage, so that it is loaded once."""
    stage = serve()
    stage.wait(lambda: stage.get("/livez")[0] == 200, 60, "alive")
    assert stage.probes() == (503, 200, 503)
    assert stage.get("/readyz")[1] == "startup\n"
    assert stage.status["phase"] == "startup"
    with stage.client() as client:
        assert not client.greet().ready
        client.submit("early")
        early = client.end_of("early")
        assert (early.status, early.retryable) == ("UNAVAILABLE", True)
        assert early.message == "the model is loading"
        stage.wait_ready()
        assert stage.probes() == (200, 200, 200)
        hello = client.greet()
        assert (hello.ready, hello.pipeline) == (True, "Pipeline")
        client.accepted("long", num_inference_steps=100, step_s=0.05)
        client.step_of("long")
        assert 'stage_requests{state="running"} 1.0' in stage.get("/metrics")[1]
        status = stage.status
        assert status["load"] == {"waiting": 0, "running": 1, "materializing": 0}
        assert status["workers"][0]["step"] >= 1
        stage.kill(signal.SIGTERM)
        client.hear(Draining)
        assert stage.probes() == (200, 200, 503)
        assert stage.get("/readyz")[1] == "draining\n"
        assert isinstance(client.end_of("long"), Result)
    assert stage.end() == 0, stage.log
    assert stage.last_words is None
    assert stage.probes() == (0, 0, 0)


def test_every_accepted_request_is_answered_and_no_later_one_is_taken(serve):
    stage = serve(num_gpus=2).wait_ready()
    with stage.client() as client, stage.client() as other:
        other.greet()
        accepted = [f"{seed}" for seed in range(8)]
        for seed, request_id in enumerate(accepted):
            client.accepted(request_id, prompt=PROMPT, seed=seed, step_s=0.1)
        stage.kill(signal.SIGTERM)
        other.hear(Draining)
        other.submit("late")
        late = other.end_of("late")
        assert (late.status, late.reason, late.retryable) == ("UNAVAILABLE", "UNAVAILABLE", True)
        assert "draining" in late.message
        images = client.images_of(accepted)
        for seed, request_id in enumerate(accepted):
            np.testing.assert_array_equal(images[request_id], picture(PROMPT, seed))
        answered_at = time.monotonic()
        assert client.errors() == []
        assert stage.end() == 0, stage.log
    assert time.monotonic() - answered_at <= 10.0


@pytest.mark.parametrize(("executor", "signum"), [("mp", signal.SIGINT), ("uni", signal.SIGTERM)])
def test_what_is_not_done_when_the_drain_time_is_over_is_sent_elsewhere(serve, executor, signum):
    stage = serve(executor=executor, drain_timeout_s=1).wait_ready()
    with stage.client() as client:
        client.accepted("endless", num_inference_steps=10_000, step_s=0.05)
        client.accepted("waiting")
        client.step_of("endless")
        for worker in stage.children():  # Ctrl-C reaches them too, and they leave it to the stage
            os.kill(worker, signum)
        stage.kill(signum)
        ends = [client.hear(Error), client.hear(Error)]
    assert {end.request_id for end in ends} == {"endless", "waiting"}
    assert {(end.status, end.retryable, end.message) for end in ends} == {
        ("UNAVAILABLE", True, "the drain time is over")
    }
    assert stage.end() == 0, stage.log
    assert stage.last_words is None


def test_a_worker_that_dies_while_draining_is_told_as_that(serve):
    stage = serve().wait_ready()
    (pid,) = stage.workers().values()
    with stage.client() as client:
        client.accepted("a", num_inference_steps=10_000, step_s=0.05)
        stage.kill(signal.SIGTERM)
        client.hear(Draining)
        os.kill(pid, signal.SIGKILL)
        assert client.end_of("a").reason == "ENGINE_DEAD"
    assert stage.end() == 71, stage.log
    assert stage.last_words["phase"] == "draining"
