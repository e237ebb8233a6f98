"""Step scheduling: joining, leaving, being preempted, and news of steps."""

import pytest

from diffusion_stage.errors import CancelledError
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput, StepProgress
from diffusion_stage.request import DiffusionRequestStatus as Status
from diffusion_stage.scheduler.request import RequestScheduler
from diffusion_stage.scheduler.step import StepScheduler
from tests.stage.builders import done, make_output, make_request


@pytest.fixture
def scheduler():
    scheduler = StepScheduler()
    scheduler.initialize(2)
    return scheduler


def add(scheduler, *request_ids):
    for request_id in request_ids:
        scheduler.add_request(make_request(request_id))


def stepped(request_id, step=1, total=4, **given):
    return RunnerOutput(
        request_id, step_index=step, total_steps=total, **{"is_finished": False} | given
    )


def ids(output):
    return [new.request_id for new in output.scheduled_new_reqs]


def test_a_step_is_news_and_no_end(scheduler):
    add(scheduler, "a")
    scheduled = scheduler.schedule()
    assert scheduler.update_from_output(BatchRunnerOutput([stepped("a", 3, 9)]), scheduled) == []
    assert scheduler.progress["a"] == StepProgress(3, 9)
    assert scheduler.num_running_reqs == 1


def test_requests_join_while_others_run(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    add(scheduler, "b")
    output = scheduler.schedule()
    assert (ids(output), output.scheduled_cached_reqs.request_ids) == (["b"], ("a",))
    assert output.scheduled_request_ids == ("a", "b")


def test_the_last_step_ends_it(scheduler):
    add(scheduler, "a")
    scheduled = scheduler.schedule()
    last = stepped("a", 4, is_finished=True, result=make_output())
    assert scheduler.update_from_output(BatchRunnerOutput([last]), scheduled) == ["a"]
    assert scheduler.pop_request_state("a").status is Status.FINISHED_COMPLETED
    assert scheduler.progress == {}


def test_a_chunk_is_no_end(scheduler):
    add(scheduler, "a")
    scheduled = scheduler.schedule()
    chunk = stepped("a", result=make_output(release=pytest.fail))
    assert scheduler.update_from_output(BatchRunnerOutput([chunk]), scheduled) == []


def test_a_request_of_the_step_without_news_has_failed(scheduler):
    add(scheduler, "a", "b")
    scheduled = scheduler.schedule()
    assert scheduler.update_from_output(BatchRunnerOutput([stepped("a")]), scheduled) == ["b"]
    state = scheduler.pop_request_state("b")
    assert state.status is Status.FINISHED_ERROR
    assert "no output for request 'b'" in str(state.error)


def test_news_of_an_attempt_that_ended_leaves_the_next_one_alone(scheduler):
    """The id was aborted during the step, and has come again."""
    add(scheduler, "a")
    scheduled = scheduler.schedule()
    scheduler.finish_requests(["a"], Status.FINISHED_ABORTED, CancelledError("as asked"))
    scheduler.pop_request_state("a")
    add(scheduler, "a")
    released = []
    late = done("a", make_output(release=lambda: released.append(1)))
    assert scheduler.update_from_output(BatchRunnerOutput([late]), scheduled) == []
    assert released == [1]
    output = scheduler.schedule()
    assert (ids(output), output.finished_req_ids) == (["a"], {"a"})


def test_a_preempted_request_waits_first_and_goes_on_by_its_id(scheduler):
    """A24."""
    add(scheduler, "a", "b", "c")
    scheduler.schedule()
    assert scheduler.preempt_request("a")
    assert (scheduler.num_running_reqs, scheduler.num_waiting_reqs) == (1, 2)
    output = scheduler.schedule()
    assert (ids(output), output.scheduled_cached_reqs.request_ids) == ([], ("b", "a"))
    assert not scheduler.preempt_request("c")
    assert not scheduler.preempt_request("nobody")


def test_news_of_the_step_in_which_it_was_preempted_counts(scheduler):
    add(scheduler, "a")
    scheduled = scheduler.schedule()
    scheduler.preempt_request("a")
    assert scheduler.update_from_output(BatchRunnerOutput([done("a")]), scheduled) == ["a"]
    scheduler.pop_request_state("a")
    assert (scheduler.num_waiting_reqs, scheduler.num_running_reqs) == (0, 0)
    assert scheduler.schedule().scheduled_request_ids == ()


def test_an_aborted_preempted_request_is_told_to_its_worker(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    scheduler.preempt_request("a")
    scheduler.finish_requests(["a"], Status.FINISHED_ABORTED, CancelledError("as asked"))
    scheduler.pop_request_state("a")
    assert scheduler.schedule().finished_req_ids == {"a"}
    assert not scheduler.has_work


def test_a_whole_forward_is_never_preempted():
    scheduler = RequestScheduler()
    add(scheduler, "a")
    scheduler.schedule()
    assert not scheduler.preempt_request("a")
    assert scheduler.num_running_reqs == 1
