"""The blocking client: the stage lives in a loop of another thread, the caller in the test's."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from diffusion_stage.client import Generation, Progress, StageClient
from diffusion_stage.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from diffusion_stage.wire.messages import Cancel
from tests.fakes.stage import FakeStage, fail, hold, pixels
from tests.fakes.threads import StageThread


@pytest.fixture
def running():
    running = StageThread(FakeStage())
    yield running
    running.stop()


@pytest.fixture
def client(running):
    with StageClient(running.stage.address) as client:
        yield client


def test_a_prompt_becomes_an_image(client):
    threads = []
    generation = client.generate(
        "a", seed=7, on_progress=lambda _: threads.append(threading.current_thread())
    )
    np.testing.assert_array_equal(np.asarray(generation.images[0]), pixels(7)[0])
    assert threads == [threading.current_thread()] * 2


def test_a_stream_gives_progress_and_the_generation(client):
    kinds = [type(each) for each in client.stream("a")]
    assert kinds == [Progress, Progress, Generation]


def test_an_error_is_the_callers(client, running):
    running.stage.script = fail("INVALID_ARGUMENT", message="height is 7", field="height")
    with pytest.raises(InvalidArgumentError, match="height is 7"):
        client.generate("a", height=7)


def test_threads_share_a_client(client):
    with ThreadPoolExecutor(8) as threads:
        seeds = threads.map(lambda seed: client.generate("a", seed=seed).seed, range(32))
        assert list(seeds) == list(range(32))


def test_an_interrupt_cancels_the_request(client, running):
    async def interrupt(task):
        task.accept()
        os.kill(os.getpid(), signal.SIGINT)
        await task.cancelled.wait()

    running.stage.script = interrupt
    with pytest.raises(KeyboardInterrupt):
        client.generate("a", request_id="mine")
    cancels = running.call(running.stage.has_heard, Cancel)
    assert cancels == [Cancel(request_id="mine", attempt=1)]


def test_a_stream_that_is_left_cancels_the_request(client, running):
    async def script(task):
        task.accept()
        task.progress(1, 2)

    running.stage.script = script
    events = client.stream("a", request_id="mine")
    next(events)
    events.close()
    assert running.call(running.stage.has_heard, Cancel)


def test_a_request_without_a_result_in_time_fails(client, running):
    running.stage.script = hold
    with pytest.raises(DeadlineExceededError):
        client.generate("a", timeout_s=0.1)


def test_status_and_control_ask_the_replicas(client):
    assert [each.name for each in client.status()] == ["stage-0"]
    assert client.control("status") == {"stage-0": {"queue": 0}}


def test_a_closed_client_says_so_and_closes_twice(running):
    client = StageClient(running.stage.address)
    client.close()
    client.close()
    with pytest.raises(UnavailableError, match="this client was closed"):
        client.generate("a")
