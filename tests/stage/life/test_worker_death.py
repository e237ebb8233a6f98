"""A worker is killed or stopped under load: who hears of it, how soon, and what is left."""

import os
import signal
import statistics
import threading
import time
from dataclasses import dataclass

import pytest

from diffusion_stage.wire.messages import EngineDead, Error
from tests.stage.life.figures import show
from tests.stage.pids import wait_gone

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

GONE_S = 5.0  # a fraction of a second, but for a machine that is very busy
LOAD = [f"request-{number}" for number in range(4)]  # two run, two wait


@dataclass
class Death:
    """What a client, a probe and the kernel saw; times are seconds since the signal."""

    errors: list
    farewell: EngineDead
    error_s: float
    unready_s: float
    ended_s: float
    exit_code: int
    orphans: list


class Probe(threading.Thread):
    """Asks whether the stage is ready, until it is not."""

    def __init__(self, stage):
        super().__init__()
        self._stage = stage
        self.unready_at = None

    def run(self):
        while self._stage.get("/readyz")[0] == 200:
            time.sleep(0.01)
        self.unready_at = time.monotonic()


def strike(stage, rank, signum, *, timeout_s):
    """Sends a signal to a worker under load, and watches the stage end."""
    workers = stage.workers()
    with stage.client() as client:
        for request_id in LOAD:
            client.accepted(request_id, num_inference_steps=10_000, step_s=0.05)
        client.step_of(LOAD[1])  # both workers are at work
        probe = Probe(stage)
        probe.start()
        os.kill(workers[rank], signum)
        struck_at = time.monotonic()
        errors = [client.hear(Error, timeout_s=timeout_s) for _ in LOAD]
        error_at = next(at for message, at in client.heard if message is errors[-1])
        farewell = client.hear(EngineDead, timeout_s=timeout_s)
        exit_code = stage.end()
        ended_at = time.monotonic()
        probe.join()
    return Death(
        errors=errors,
        farewell=farewell,
        error_s=error_at - struck_at,
        unready_s=probe.unready_at - struck_at,
        ended_s=ended_at - struck_at,
        exit_code=exit_code,
        orphans=wait_gone(workers.values(), timeout_s=GONE_S),
    )


def check_told(death, words):
    """Every request got its one end, typed and retryable, and then came the farewell."""
    assert {error.request_id for error in death.errors} == set(LOAD)
    assert {(e.status, e.reason, e.retryable) for e in death.errors} == {
        ("UNAVAILABLE", "ENGINE_DEAD", True)
    }
    assert all(words in error.message for error in death.errors)
    assert words in death.farewell.message


def kill_some(serve, count):
    """`count` stages, each of which loses a worker under load."""
    deaths = []
    for number in range(count):
        stage = serve(num_gpus=2).wait_ready()
        deaths.append(strike(stage, number % 2, signal.SIGKILL, timeout_s=10))
        check_told(deaths[-1], f"worker {number % 2} (cpu:{number % 2}) was killed by SIGKILL")
        said = stage.last_words
        assert (said["reason"], said["exitCode"], said["signal"]) == ("WorkerDied", 71, 9)
        assert (said["rank"], said["device"]) == (number % 2, f"cpu:{number % 2}")
        assert (said["phase"], said["inflight"]) == ("serving", len(LOAD))
        assert said["step"] >= 1
    show("SIGKILL of a worker to the error at the client", [each.error_s for each in deaths])
    show("〃 to unready", [each.unready_s for each in deaths])
    show("〃 to the end of the stage", [each.ended_s for each in deaths])
    assert [each.exit_code for each in deaths] == [71] * count
    assert [each.orphans for each in deaths] == [[]] * count
    assert max(each.ended_s for each in deaths) <= 10.0
    return deaths


def test_a_killed_worker_is_told_and_ends_the_stage(serve):
    kill_some(serve, count=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_its_death_is_told_at_once_ten_times(serve):
    """RUNTIME-RULE-5."""
    deaths = kill_some(serve, count=10)
    assert statistics.median(each.error_s for each in deaths) <= 1.0
    assert max(each.unready_s for each in deaths) <= 2.0


def test_a_stopped_worker_is_a_hang(serve):
    stage = serve(num_gpus=2, hang_timeout_s=4).wait_ready()
    death = strike(stage, 1, signal.SIGSTOP, timeout_s=30)
    check_told(death, "worker 1 (cpu:1) made no step for")
    assert (death.exit_code, death.orphans) == (73, [])
    said = stage.last_words
    assert (said["reason"], said["rank"], said["phase"]) == ("Hang", 1, "serving")
    assert said["inflight"] == len(LOAD)


def test_an_idle_worker_that_is_stopped_is_a_hang_too(serve):
    stage = serve(hang_timeout_s=4).wait_ready()
    (pid,) = stage.workers().values()
    os.kill(pid, signal.SIGSTOP)
    assert stage.end() == 73, stage.log
    assert "gave no sign of life" in stage.last_words["msg"]
    assert wait_gone([pid], timeout_s=GONE_S) == []


def test_an_idle_stage_notices_the_death_of_its_worker(serve):
    """Nobody asks for anything: the death is told all the same."""
    stage = serve().wait_ready()
    workers = stage.workers()
    os.kill(workers[0], signal.SIGTERM)
    assert stage.end(timeout_s=10) == 71, stage.log
    said = stage.last_words
    assert (said["signal"], said["rank"], said["inflight"]) == (signal.SIGTERM, 0, 0)
    assert wait_gone(workers.values(), timeout_s=GONE_S) == []


def test_workers_die_with_a_stage_that_is_killed(serve):
    """One sleeps between two steps, the other is in a native call that holds its interpreter."""
    stage = serve(num_gpus=2).wait_ready()
    workers = stage.workers()
    with stage.client() as client:
        client.accepted("sleeps", num_inference_steps=10_000, step_s=0.05)
        client.accepted("is stuck", fault="hold the GIL", fault_at=1)
        client.step_of("is stuck")
        stage.kill(signal.SIGKILL)
        killed_at = time.monotonic()
        assert wait_gone(workers.values(), timeout_s=GONE_S) == []
        show("SIGKILL of the stage to the end of its workers", [time.monotonic() - killed_at])
    assert stage.end() == -signal.SIGKILL
