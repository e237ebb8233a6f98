"""What runs next, and how each request ends."""

import pytest

from diffusion_stage.errors import AlreadyExistsError, CancelledError, InternalError
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequestStatus as Status
from diffusion_stage.scheduler.request import RequestScheduler
from tests.stage.builders import computed, done, failed, make_output, make_request

ABORTED = CancelledError("as asked")


@pytest.fixture
def scheduler():
    scheduler = RequestScheduler()
    scheduler.initialize(max_num_running_reqs=2)
    return scheduler


def add(scheduler, *request_ids, **given):
    for request_id in request_ids:
        scheduler.add_request(make_request(request_id, **given))


def scheduled(output):
    return [new.request_id for new in output.scheduled_new_reqs]


def update(scheduler, *outputs):
    return scheduler.update_from_output(BatchRunnerOutput(outputs))


def abort(scheduler, *request_ids):
    return scheduler.finish_requests(request_ids, Status.FINISHED_ABORTED, ABORTED)


def test_requests_run_in_order_of_arrival_up_to_the_capacity(scheduler):
    add(scheduler, "a", "b", "c")
    output = scheduler.schedule()
    assert scheduled(output) == ["a", "b"]
    assert (output.num_running_reqs, output.num_waiting_reqs) == (2, 1)


def test_a_request_is_scheduled_once_and_then_goes_on_by_its_id(scheduler):
    add(scheduler, "a")
    assert scheduler.schedule().scheduled_cached_reqs.request_ids == ()
    output = scheduler.schedule()
    assert scheduled(output) == []
    assert output.scheduled_cached_reqs.request_ids == ("a",)
    assert not output.has_news


def test_the_scheduled_payload_is_the_request_itself(scheduler):
    request = make_request("a", params={"prompt": "x"})
    scheduler.add_request(request)
    assert scheduler.schedule().scheduled_new_reqs[0].request is request


def test_lower_priority_numbers_run_first_and_equals_by_arrival(scheduler):
    scheduler.initialize(max_num_running_reqs=4)
    for request_id, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 0)):
        add(scheduler, request_id, priority=priority)
    assert scheduled(scheduler.schedule()) == ["c", "a", "d", "b"]


def test_a_freed_place_goes_to_the_next_in_line(scheduler):
    add(scheduler, "a", "b", "c")
    scheduler.schedule()
    assert update(scheduler, done("a")) == ["a"]
    assert scheduled(scheduler.schedule()) == ["c"]


def test_a_place_is_free_while_the_output_is_still_being_packed(scheduler):
    scheduler.initialize(max_num_running_reqs=1)
    add(scheduler, "a", "b")
    scheduler.schedule()
    assert update(scheduler, computed("a")) == []
    assert (scheduler.num_running_reqs, scheduler.num_materializing_reqs) == (0, 1)
    assert scheduled(scheduler.schedule()) == ["b"]
    assert update(scheduler, done("a")) == ["a"]
    assert scheduler.pop_request_state("a").status is Status.FINISHED_COMPLETED


def test_an_id_in_use_is_refused_and_its_first_owner_goes_on(scheduler):
    add(scheduler, "a")
    with pytest.raises(AlreadyExistsError, match="'a' is in use") as refused:
        add(scheduler, "a")
    assert refused.value.field == "request_id"
    assert scheduled(scheduler.schedule()) == ["a"]
    assert scheduler.num_waiting_reqs == 0


def test_an_id_is_free_again_once_its_request_was_handed_over(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    update(scheduler, done("a"))
    scheduler.pop_request_state("a")
    add(scheduler, "a")
    output = scheduler.schedule()
    assert scheduled(output) == ["a"]
    assert output.finished_req_ids == {"a"}, "the end of the first is told with the second's start"


@pytest.mark.parametrize(
    ("news", "status"),
    [
        (done("a"), Status.FINISHED_COMPLETED),
        (failed("a", InternalError("")), Status.FINISHED_ERROR),
        (RunnerOutput("a"), Status.FINISHED_ERROR),
    ],
)
def test_each_kind_of_news_has_its_end(scheduler, news, status):
    add(scheduler, "a")
    scheduler.schedule()
    assert update(scheduler, news) == ["a"]
    assert scheduler.pop_request_state("a").status is status


def test_an_error_without_words_is_an_error_all_the_same(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    error = InternalError("")
    update(scheduler, failed("a", error))
    assert scheduler.pop_request_state("a").error is error


def test_a_missing_output_is_told_as_an_error_that_names_the_request(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    update(scheduler, RunnerOutput("a"))
    assert "'a'" in str(scheduler.pop_request_state("a").error)


def test_only_live_requests_can_be_aborted(scheduler):
    add(scheduler, "a", "b", "c")
    scheduler.schedule()
    update(scheduler, done("b"))
    assert abort(scheduler, "a", "b", "c", "unknown") == ["a", "c"]
    assert scheduler.pop_request_state("a").status is Status.FINISHED_ABORTED
    assert scheduler.pop_request_state("b").status is Status.FINISHED_COMPLETED
    assert scheduler.pop_request_state("c").error is ABORTED


def test_an_aborted_request_that_waited_never_runs(scheduler):
    add(scheduler, "a", "b", "c")
    abort(scheduler, "a")
    assert scheduled(scheduler.schedule()) == ["b", "c"]


def test_a_materializing_request_can_be_aborted(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    update(scheduler, computed("a"))
    assert abort(scheduler, "a") == ["a"]
    assert update(scheduler, done("a")) == []


def test_ends_that_workers_must_hear_of_are_work_until_told_once(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    abort(scheduler, "a")
    scheduler.pop_request_state("a")
    assert scheduler.has_work, "no worker was told"
    output = scheduler.schedule()
    assert output.finished_req_ids == {"a"}
    assert output.has_news, "a retirement-only tick"
    assert not scheduler.has_work
    assert scheduler.schedule().finished_req_ids == set()


def test_the_end_of_a_request_that_no_worker_knows_is_told_to_none(scheduler):
    add(scheduler, "a")
    abort(scheduler, "a")
    scheduler.pop_request_state("a")
    assert not scheduler.has_work
    assert not scheduler.schedule().has_news


@pytest.mark.parametrize("state", ["unknown", "aborted", "completed"])
def test_late_outputs_are_dropped_and_what_they_borrowed_is_released(scheduler, state):
    released = []
    if state != "unknown":
        add(scheduler, "a")
        scheduler.schedule()
    if state == "aborted":
        abort(scheduler, "a")
    if state == "completed":
        update(scheduler, done("a"))
    late = done("a", make_output(release=lambda: released.append("a")))
    assert update(scheduler, late) == []
    assert released == ["a"]


def test_late_errors_and_late_packing_news_change_nothing(scheduler):
    add(scheduler, "a")
    scheduler.schedule()
    update(scheduler, done("a"))
    assert update(scheduler, failed("a", InternalError("late")), computed("a")) == []
    assert scheduler.pop_request_state("a").status is Status.FINISHED_COMPLETED


def test_results_are_mapped_by_id_whatever_their_order(scheduler):
    """DIFF-RUNTIME-INV-005."""
    add(scheduler, "a", "b")
    scheduler.schedule()
    error = InternalError("b's own")
    assert update(scheduler, failed("b", error), done("a")) == ["b", "a"]
    assert scheduler.pop_request_state("a").error is None
    assert scheduler.pop_request_state("b").error is error


def test_deadlines_pass_in_their_order_and_only_for_live_requests(scheduler):
    for request_id, deadline_at in (("a", 30.0), ("b", 10.0), ("c", 20.0), ("d", None)):
        add(scheduler, request_id, deadline_at=deadline_at)
    abort(scheduler, "b")
    assert scheduler.next_deadline() == 20.0
    assert scheduler.overdue(now=19.9) == []
    assert scheduler.overdue(now=30.0) == ["c", "a"]
    assert scheduler.next_deadline() is None


def test_states_and_queues_do_not_grow_with_requests_that_were_aborted_while_they_waited(scheduler):
    add(scheduler, "first", "second")
    scheduler.schedule()
    for number in range(1000):
        add(scheduler, f"{number}", deadline_at=1e9)
        abort(scheduler, f"{number}")
        scheduler.pop_request_state(f"{number}")
    assert scheduler.num_waiting_reqs == 0
    assert len(scheduler._queue) < 40
    assert len(scheduler._deadlines) < 40
    assert set(scheduler._states) == {"first", "second"}


def test_a_long_queue_keeps_its_order_through_compaction(scheduler):
    add(scheduler, *(f"{number}" for number in range(100)))
    abort(scheduler, *(f"{number}" for number in range(90)))
    assert scheduled(scheduler.schedule()) == ["90", "91"]
    assert scheduler.num_waiting_reqs == 8


def test_live_requests_are_those_without_an_end(scheduler):
    add(scheduler, "a", "b", "c")
    scheduler.schedule()
    update(scheduler, done("a"))
    assert scheduler.live_request_ids() == ["b", "c"]


def test_close_forgets_everything_and_keeps_the_capacity(scheduler):
    add(scheduler, "a", "b", "c")
    scheduler.schedule()
    scheduler.close()
    assert not scheduler.has_work
    add(scheduler, "a", "b", "c")
    assert scheduled(scheduler.schedule()) == ["a", "b"]
