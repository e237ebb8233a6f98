"""What counts as a hang, from what the workers said and when; times are seconds."""

import threading

import pytest

from diffusion_stage.errors import HangError
from diffusion_stage.executor.executor import RankActivity
from diffusion_stage.server.watchdog import Watchdog, find_hang

NOW = 1000.0
LIMIT = 30.0


def rank(number=0, *, busy_since=None, progress_at=NOW, heard_at=NOW, step=None):
    return RankActivity(
        rank=number,
        device=f"cpu:{number}",
        busy_since=busy_since,
        progress_at=progress_at,
        heard_at=heard_at,
        step=step,
    )


def look(*ranks, ticked_at=NOW):
    return find_hang(ranks, ticked_at=ticked_at, limit_s=LIMIT, now=NOW)


BUSY = {"busy_since": NOW - 500}


@pytest.mark.parametrize(
    "activity",
    [
        rank(),
        rank(heard_at=NOW - LIMIT),
        rank(**BUSY, progress_at=NOW - LIMIT),
        rank(**BUSY, progress_at=NOW - 1, heard_at=NOW - 400),  # in a native call, but stepping
        rank(progress_at=NOW - 400),  # idle for long
    ],
)
def test_a_worker_that_steps_or_answers_in_time_does_not_hang(activity):
    assert look(activity) is None


def test_a_busy_worker_must_make_steps_even_if_it_answers():
    hang = look(rank(0), rank(1, **BUSY, progress_at=NOW - 31, step=7))
    assert (hang.rank, hang.device, hang.step, hang.exit_code) == (1, "cpu:1", 7, 73)
    assert str(hang) == "worker 1 (cpu:1) made no step for 31.0 s; the limit is 30 s"


def test_an_idle_worker_must_answer():
    hang = look(rank(heard_at=NOW - 31))
    assert "gave no sign of life for 31.0 s" in str(hang)


def test_the_loop_must_turn_while_no_worker_is_busy():
    assert look(rank(), ticked_at=NOW - LIMIT) is None
    hang = look(rank(), ticked_at=NOW - LIMIT - 6)
    assert "the engine's loop stood still for 36.0 s" in str(hang)
    assert hang.rank is None


def test_a_loop_that_runs_a_forward_itself_may_stand_still():
    assert look(rank(**BUSY), ticked_at=NOW - 500) is None


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(Watchdog, "PERIOD_S", 0.001)


def test_a_hang_is_told_once(impatient):
    told = []
    hang = HangError("no step")
    watchdog = Watchdog(lambda now: hang, told.append)
    watchdog.start()
    watchdog._thread.join(timeout=10)
    assert told == [hang]


def test_it_looks_again_and_again_until_it_is_stopped(impatient):
    looked = threading.Semaphore(0)

    def look(now):
        looked.release()

    watchdog = Watchdog(look, pytest.fail)
    watchdog.start()
    assert all(looked.acquire(timeout=10) for _ in range(3))
    watchdog.stop()
