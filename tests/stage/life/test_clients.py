"""All that clients do to one stage: what one gets wrong costs nobody else, and nothing stays."""

import time

import numpy as np
import pytest

from diffusion_stage.wire import codec
from diffusion_stage.wire.messages import (
    Cancel,
    Control,
    ControlReply,
    Error,
    Hello,
    Ping,
    Result,
    Submit,
)
from diffusion_stage.wire.tensors import describe, frame
from tests import leaks
from tests.fakes.pipelines import picture
from tests.stage.pids import maps

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PROMPT = "a red circle"


@pytest.fixture
def neighbour(shared):
    """A client with a request under way, which must end well, and hear of nothing else."""
    with shared.client() as client:
        client.accepted("neighbour", prompt=PROMPT, seed=5, num_inference_steps=20, step_s=0.05)
        client.step_of("neighbour")
        yield client
        np.testing.assert_array_equal(client.image_of("neighbour"), picture(PROMPT, 5))
        assert client.errors() == []
    shared.wait_idle()


@pytest.fixture
def client(shared):
    with shared.client() as client:
        yield client
    shared.wait_idle()


ZEROS = bytes(100_000_000)
HELLO = codec.encode(Hello(name="x"))
SUBMIT = codec.encode(Submit(request_id="zeros", params={"prompt": "x"}))
GARBAGE = {
    "100 MB of zeros": [ZEROS],
    "100 MB of zeros as header": [codec.PROTOCOL, ZEROS],
    "100 MB of zeros as payload": [*SUBMIT, ZEROS],
    "an empty message": [b""],
    "random bytes": [b"\x93\xfe\x00\xff" * 1000] * 3,
    "an unknown message": [codec.PROTOCOL, b"\x81\xa4type\xa5dance"],
    "another protocol version": [codec.PROTOCOL[:-1] + b"\x07", HELLO[1]],
}


@pytest.mark.parametrize("frames", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_answered_to_its_sender(neighbour, client, frames):
    client.say_frames(frames)
    error = client.hear(Error)
    assert (error.status, error.retryable) == ("INVALID_ARGUMENT", False)
    assert client.greet().ready


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"guidance": 5}, "guidance", "a parameter of Pipeline: fault, fault_at, height, latents"),
        ({"height": "large"}, "height", "of type int"),
        ({"height": 0}, "height", "a multiple of 1 from 1 to 16384"),
        ({"num_inference_steps": 0}, "num_inference_steps", "1 to 10000"),
        ({"prompt": None}, "prompt", "a string, a list of strings, or prompt_embeds"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(neighbour, client, given, field, allowed):
    client.submit("a", **given)
    error = client.end_of("a")
    assert (error.status, error.field) == ("INVALID_ARGUMENT", field)
    assert f"allowed: {allowed}" in error.message


@pytest.mark.parametrize(
    ("fault", "fault_at", "status", "words"),
    [
        (
            "value error",
            0,
            "INVALID_ARGUMENT",
            "Pipeline: ValueError: `guidance_scale` is too high",
        ),
        ("value error", 1, "INTERNAL", "ValueError: `guidance_scale` is too high"),
        ("runtime error", 1, "INTERNAL", "RuntimeError: a bug in the model"),
        ("assertion", 0, "INTERNAL", "AssertionError"),
        ("assertion", 1, "INTERNAL", "AssertionError"),
        ("out of memory", 1, "RESOURCE_EXHAUSTED", "the device's memory is full"),
    ],
)
def test_a_request_that_poisons_its_forward_fails_alone(
    neighbour, client, fault, fault_at, status, words
):
    """RUNTIME-RULE-6."""
    client.accepted("poison", fault=fault, fault_at=fault_at)
    error = client.end_of("poison")
    assert (error.status, error.retryable) == (status, status == "RESOURCE_EXHAUSTED")
    assert words in error.message
    client.accepted("after", prompt=PROMPT, seed=1)
    np.testing.assert_array_equal(client.image_of("after"), picture(PROMPT, 1))


@pytest.mark.parametrize(
    "args",
    [
        {"call": "report", "args": [1]},
        {"call": "report", "args": {1: 2}},
        {"call": "report", "args": {}, "call_timeout_s": "soon"},
        {"call": ["report"]},
        {},
    ],
    ids=str,
)
def test_a_malformed_control_call_is_answered_to_its_sender(neighbour, client, args):
    """W19."""
    client.say(Control(control_id="1", method="collective_rpc", args=args))
    assert client.hear(ControlReply).error.startswith("collective_rpc: ")
    assert client.control("workers")


def test_an_id_in_use_is_refused_to_its_owner_and_to_others(neighbour, client):
    client.accepted("mine", prompt=PROMPT, seed=2, num_inference_steps=20, step_s=0.02)
    for taken in ("mine", "neighbour"):
        client.submit(taken, attempt=2, prompt="something else")
        error = client.hear(Error, request_id=taken)
        assert (error.status, error.attempt, error.field) == ("ALREADY_EXISTS", 2, "request_id")
    client.say(Cancel(request_id="neighbour", attempt=1))
    np.testing.assert_array_equal(client.image_of("mine"), picture(PROMPT, 2))
    client.accepted("mine", attempt=3, prompt=PROMPT, seed=3)
    np.testing.assert_array_equal(client.image_of("mine"), picture(PROMPT, 3))


def test_a_cancelled_request_ends_at_its_next_step(neighbour, client):
    client.accepted("a", num_inference_steps=10_000, step_s=0.05)
    client.step_of("a")
    client.say(Cancel(request_id="a", attempt=1))
    assert client.end_of("a").status == "CANCELLED"
    client.accepted("a", attempt=2, prompt=PROMPT, seed=4)
    np.testing.assert_array_equal(client.image_of("a"), picture(PROMPT, 4))


def test_a_deadline_ends_a_request_that_runs(neighbour, client):
    client.accepted("a", num_inference_steps=10_000, step_s=0.05, deadline_s=0.5)
    assert client.end_of("a").status == "DEADLINE_EXCEEDED"


def test_the_requests_of_a_client_that_is_gone_free_their_places(shared, client):
    with shared.client() as leaving:
        for number in range(4):  # both workers, and two that wait
            leaving.accepted(f"left-{number}", num_inference_steps=10_000, step_s=0.05)
        leaving.step_of("left-1")
    left_at = time.monotonic()
    client.accepted("after", prompt=PROMPT, seed=6)
    np.testing.assert_array_equal(client.image_of("after", timeout_s=30), picture(PROMPT, 6))
    shared.wait_idle()
    assert time.monotonic() - left_at < 30


def test_more_requests_than_may_wait_are_refused_and_the_rest_is_answered(shared, client):
    ids = [f"{number}" for number in range(14)]
    for seed, request_id in enumerate(ids):
        client.submit(request_id, prompt=PROMPT, seed=seed, step_s=0.1)
    ends = {request_id: client.end_of(request_id) for request_id in ids[10:]}
    assert {(end.status, end.retryable) for end in ends.values()} == {("RESOURCE_EXHAUSTED", True)}
    for seed, request_id in enumerate(ids[:10]):  # two run, eight wait
        np.testing.assert_array_equal(client.image_of(request_id), picture(PROMPT, seed))


def test_a_large_output_and_a_large_input_pass(neighbour, client):
    client.accepted("large", output_mb=97, output="tensor")
    result, (payload,) = client.hear_all(Result)
    assert (result.outputs[0].shape, payload) == ((97 << 20,), bytes(97 << 20))
    latents = np.random.default_rng(0).random((64, 1024, 96), dtype=np.float32)
    given = describe("latents", latents)
    client.accepted("back", inputs=[given], payload=[frame(latents)], output="latent")
    result, (payload,) = client.hear_all(Result, request_id="back")
    assert payload == latents.tobytes()


def test_a_client_that_reads_nothing_delays_nobody(shared, client):
    with shared.client() as slow:
        for number in range(4):
            slow.submit(f"slow-{number}", output_mb=97, output="tensor")
        client.accepted("a", prompt=PROMPT, seed=7)
        np.testing.assert_array_equal(client.image_of("a", timeout_s=30), picture(PROMPT, 7))


def test_a_client_that_answers_no_ping_is_served(shared):
    with shared.client(is_mute=True) as mute:
        mute.accepted("a", prompt=PROMPT, seed=8, num_inference_steps=40, step_s=0.05)
        np.testing.assert_array_equal(mute.image_of("a"), picture(PROMPT, 8))
        assert any(isinstance(message, Ping) for message, _ in mute.heard)


def test_nothing_of_many_requests_is_kept(shared, client):
    """RUNTIME-RULE-4. Ends of each kind, again and again: its own counts return to nothing."""
    for number in range(30):
        given = [{}, {"fault": "assertion"}, {"output_mb": 1}][number % 3]
        client.accepted(f"{number}", **given)
        if number % 5 == 0:
            client.say(Cancel(request_id=f"{number}"))
        client.end_of(f"{number}")
    shared.wait_idle()
    assert [worker["busy_since"] for worker in shared.status["workers"]] == [None, None]


def test_the_stage_process_imports_no_torch(shared):
    assert "libtorch" not in maps(shared.process.pid)
    for pid in shared.workers().values():
        assert "libtorch" in maps(pid)


def test_large_outputs_leave_nothing_with_a_name(shared):
    before = leaks.shared_memory()
    with shared.client() as client:
        client.accepted("large", output_mb=4, output="tensor")
        client.end_of("large")
        assert leaks.shared_memory().keys() <= before.keys()
    for pid in [shared.process.pid, *shared.workers().values()]:
        assert "/dev/shm" not in maps(pid)


def test_shared_memory_is_used_again(shared):
    def segments():
        return maps(shared.process.pid).count("memfd:diffusion-stage-output")

    with shared.client() as client:
        counts = []
        for number in range(12):
            client.accepted(f"{number}", output_mb=4, output="tensor")
            client.end_of(f"{number}")
            counts.append(segments())
    assert counts[-1] <= counts[1]  # one segment is on its way while the next is asked for
