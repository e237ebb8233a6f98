"""How long the first request of a wave waits for others."""

import pytest

from diffusion_stage.errors import CancelledError
from diffusion_stage.outputs import BatchRunnerOutput
from diffusion_stage.request import DiffusionRequestStatus as Status
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.scheduler.request import RequestScheduler
from tests.stage.builders import done, make_request
from tests.stage.scheduler.test_compatibility import CAPABILITIES


def make(*, wait_s, is_fused=True, capacity=4):
    scheduler = RequestScheduler(is_fused=is_fused, max_wait_s=wait_s)
    scheduler.initialize(capacity)
    if is_fused:
        scheduler.use_rule(BatchRule.for_calls(CAPABILITIES))
    return scheduler


def add(scheduler, *request_ids, height=64):
    for request_id in request_ids:
        scheduler.add_request(make_request(request_id, params={"height": height}))


def test_without_a_limit_nobody_waits():
    scheduler = make(wait_s=0)
    add(scheduler, "a")
    assert scheduler.admission_wait_until(0.0) is None


@pytest.mark.parametrize(
    ("is_fused", "wait_s", "window_s"),
    [(True, 1.0, 0.05), (True, 0.1, 0.02), (False, 1.0, 0.3), (False, 0.1, 0.05)],
)
def test_the_wait_ends_when_no_request_came_for_a_while(is_fused, wait_s, window_s):
    """A15."""
    scheduler = make(wait_s=wait_s, is_fused=is_fused)
    add(scheduler, "a")
    assert scheduler.admission_wait_until(10.0) == pytest.approx(10.0 + window_s)
    assert scheduler.admission_wait_until(10.0 + window_s) is None


def test_arrivals_prolong_it_up_to_the_limit():
    scheduler = make(wait_s=0.1)
    add(scheduler, "a")
    assert scheduler.admission_wait_until(0.0) == pytest.approx(0.02)
    add(scheduler, "b")
    assert scheduler.admission_wait_until(0.015) == pytest.approx(0.035)
    add(scheduler, "c")
    assert scheduler.admission_wait_until(0.09) == pytest.approx(0.1)
    assert scheduler.admission_wait_until(0.1) is None


def test_a_full_wave_runs_at_once():
    scheduler = make(wait_s=1.0)
    add(scheduler, "a", "b", "c")
    assert scheduler.admission_wait_until(0.0) is not None
    add(scheduler, "d")
    assert scheduler.admission_wait_until(0.01) is None


def test_only_requests_that_may_run_with_the_first_are_counted():
    """W10."""
    scheduler = make(wait_s=1.0)
    add(scheduler, "a")
    scheduler.admission_wait_until(0.0)
    add(scheduler, "b", "c", "d", height=32)
    assert scheduler.admission_wait_until(0.04) == pytest.approx(0.05)
    assert scheduler.admission_wait_until(0.05) is None


def test_an_abort_ends_the_wait():
    """A16."""
    scheduler = make(wait_s=1.0)
    add(scheduler, "a")
    scheduler.admission_wait_until(0.0)
    scheduler.finish_requests(["a"], Status.FINISHED_ABORTED, CancelledError("as asked"))
    assert scheduler.admission_wait_until(0.01) is None
    scheduler.pop_request_state("a")
    add(scheduler, "b")
    assert scheduler.admission_wait_until(5.0) == pytest.approx(5.05)


def test_nobody_waits_while_others_run():
    scheduler = make(wait_s=1.0, is_fused=False)
    add(scheduler, "a")
    scheduler.schedule()
    add(scheduler, "b")
    assert scheduler.admission_wait_until(0.0) is None


def test_a_wave_of_one_call_begins_when_the_one_before_has_ended():
    scheduler = make(wait_s=0)
    add(scheduler, "a", "b")
    assert [new.request_id for new in scheduler.schedule().scheduled_new_reqs] == ["a", "b"]
    add(scheduler, "c", "d")
    assert not scheduler.schedule().has_news
    scheduler.update_from_output(BatchRunnerOutput([done("a")]))
    assert scheduler.schedule().scheduled_new_reqs == ()
    scheduler.update_from_output(BatchRunnerOutput([done("b")]))
    assert [new.request_id for new in scheduler.schedule().scheduled_new_reqs] == ["c", "d"]


def test_finishes_are_reported_while_the_first_waits():
    scheduler = make(wait_s=1.0)
    add(scheduler, "a")
    scheduler.schedule()
    scheduler.finish_requests(["a"], Status.FINISHED_ABORTED, CancelledError("as asked"))
    scheduler.pop_request_state("a")
    add(scheduler, "b")
    assert scheduler.admission_wait_until(0.0) is not None
    output = scheduler.schedule(admit=False)
    assert (output.finished_req_ids, output.scheduled_new_reqs) == ({"a"}, ())
