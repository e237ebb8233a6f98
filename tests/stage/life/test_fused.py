"""A stage that runs several requests in one call of the pipeline."""

import numpy as np
import pytest

from diffusion_stage.wire.messages import Cancel, Error
from tests.fakes.pipelines import picture

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PROMPT = "a red circle"


@pytest.fixture(scope="module", params=["mp", "uni"])
def stage(request, serve_module):
    return serve_module("Batches", executor=request.param, max_num_seqs=4).wait_ready()


@pytest.fixture
def client(stage):
    with stage.client() as client:
        yield client
    stage.wait_idle()


@pytest.fixture
def wave(client):
    """Sends requests, by id, that come into one wave: they wait behind another's call."""

    def send(**requests):
        client.accepted("first", step_s=0.2)
        client.step_of("first")
        for request_id, given in requests.items():
            client.accepted(request_id, **{"prompt": PROMPT, "step_s": 0.05} | given)

    return send


def test_each_request_of_a_wave_gets_its_own_picture(client, wave):
    wave(a={"seed": 1}, b={"seed": 2, "prompt": "a star"}, c={"seed": 3})
    images = client.images_of(["first", "a", "b", "c"])
    np.testing.assert_array_equal(images["a"], picture(PROMPT, 1))
    np.testing.assert_array_equal(images["b"], picture("a star", 2))
    np.testing.assert_array_equal(images["c"], picture(PROMPT, 3))


def test_a_request_that_poisons_the_call_fails_alone(client, wave):
    """W4 and RUNTIME-RULE-6: the others run again, each alone."""
    wave(a={"seed": 1}, bad={"fault": "runtime error", "fault_at": 1}, c={"seed": 3})
    error = client.end_of("bad")
    assert (error.status, error.message) == ("INTERNAL", "RuntimeError: a bug in the model")
    images = client.images_of(["first", "a", "c"])
    np.testing.assert_array_equal(images["a"], picture(PROMPT, 1))
    np.testing.assert_array_equal(images["c"], picture(PROMPT, 3))


def test_an_abort_of_one_leaves_the_others_alone(client, wave):
    wave(a={"seed": 1}, b={"seed": 2})
    client.step_of("a")
    client.say(Cancel(request_id="b", attempt=1))
    assert client.hear(Error, request_id="b").status == "CANCELLED"
    np.testing.assert_array_equal(client.image_of("a"), picture(PROMPT, 1))
    client.image_of("first")


def test_a_wave_that_nobody_wants_any_more_is_stopped(client, wave):
    given = {"num_inference_steps": 10_000}
    wave(a=given, b=given)
    client.step_of("a")
    for request_id in "ab":
        client.say(Cancel(request_id=request_id, attempt=1))
        assert client.end_of(request_id).status == "CANCELLED"
    client.accepted("after", prompt=PROMPT, seed=4)
    np.testing.assert_array_equal(client.image_of("after"), picture(PROMPT, 4))
    client.image_of("first")


def test_requests_that_do_not_agree_run_one_wave_after_the_other(client, wave):
    wave(a={"seed": 1}, b={"seed": 2, "num_inference_steps": 5}, c={"seed": 3})
    images = client.images_of(["first", "a", "b", "c"])
    np.testing.assert_array_equal(images["b"], picture(PROMPT, 2))
