"""What workers may say, in any order, and what becomes of it."""

import os

import pytest

from diffusion_stage.errors import (
    AcceleratorError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
)
from diffusion_stage.worker import messages as m
from diffusion_stage.worker.segments import PAGE
from tests.stage.builders import PIXEL


def call_of(worker):
    """The id of the one call that the worker was told to execute."""
    (call,) = [each for each in worker.heard() if isinstance(each, m.ExecuteModel)]
    return call.call_id


@pytest.fixture
def worker(stage):
    return stage.workers[0]


@pytest.fixture
def call_id(stage, worker):
    """A forward of request `a`, on worker 0."""
    assert stage.schedule("a") == []
    return call_of(worker)


@pytest.fixture
def is_quiet(stage):
    """Whether nothing is kept of any forward."""
    return lambda: stage.executor._forwards == {}


def segment(worker, call_id, *, segment_id=1, descriptor=True, **given):
    """An output in shared memory, as the packing thread sends it."""
    file = os.memfd_create("test")
    os.truncate(file, PAGE)
    os.pwrite(file, b"abc", 0)
    packed = m.Packed(specs=(PIXEL,), segment_id=segment_id, offsets=(0,), **given)
    message = m.OutputReady(call_id=call_id, packed=packed)
    worker.say(message, [file] if descriptor else [])
    os.close(file)


def test_a_forward_and_its_output(stage, worker, call_id, is_quiet):
    worker.computed(call_id)
    (computed,) = stage.wait()
    assert (computed.request_id, computed.result, computed.error) == ("a", None, None)
    assert computed.async_output_id is not None
    worker.packed(call_id)
    (output,) = stage.wait()
    assert (output.request_id, output.result.data, output.result.rank) == ("a", (b"rgb",), 0)
    assert is_quiet()


def test_a_worker_is_busy_until_its_output_is_here(stage, worker, call_id):
    """So the watchdog ends a stage whose output never comes."""
    worker.computed(call_id)
    stage.wait()
    assert stage.executor.activity()[0].busy_since is not None
    worker.packed(call_id)
    stage.wait()
    assert stage.executor.activity()[0].busy_since is None


def test_an_output_may_overtake_the_end_of_its_forward(stage, worker, call_id, is_quiet):
    worker.packed(call_id)
    (output,) = stage.wait()
    assert output.result is not None
    assert stage.executor.activity()[0].busy_since is not None, "the device is not free yet"
    worker.computed(call_id)
    assert stage.wait() == []
    assert stage.executor.activity()[0].busy_since is None
    assert is_quiet()


@pytest.mark.parametrize("order", ["computed first", "packed first"])
def test_an_output_that_cannot_be_packed_fails_its_request_alone(
    stage, worker, call_id, is_quiet, order
):
    say = [
        lambda: worker.computed(call_id),
        lambda: worker.packed(call_id, reason="INTERNAL", message="no memory"),
    ]
    for message in say if order == "computed first" else reversed(say):
        message()
    failed = [output for output in stage.wait() if output.async_output_id is None]
    assert [(each.request_id, str(each.error)) for each in failed] == [("a", "no memory")]
    assert is_quiet()


def test_an_error_of_a_forward_keeps_its_kind_and_field(stage, worker, call_id, is_quiet):
    worker.computed(call_id, reason="INVALID_ARGUMENT", message="height is 9", field="height")
    (failed,) = stage.wait()
    assert (failed.error.reason, str(failed.error)) == ("INVALID_ARGUMENT", "height is 9")
    assert failed.error.field == "height"
    assert is_quiet()


def test_a_lost_device_ends_the_engine_and_is_named(stage, worker, call_id):
    worker.computed(call_id, reason="INTERNAL", message="lost", fatal="AcceleratorUnusable")
    with pytest.raises(AcceleratorError, match="lost") as died:
        stage.wait()
    assert (died.value.rank, died.value.device) == (0, "cpu:0")


def test_steps_are_told_by_request(stage, worker, call_id):
    worker.say(m.StepDone(call_id=call_id, step=3, total_steps=20))
    assert stage.wait() == []
    assert stage.progress == [("a", 3, 20)]
    assert stage.executor.activity()[0].step == 3


def test_a_full_wave_gives_each_rank_one_request(stage):
    """DIFF-RUNTIME-INV-002."""
    stage.schedule("a", "b")
    calls = [worker.heard()[0] for worker in stage.workers]
    assert [call.request.request_id for call in calls] == ["a", "b"]


def test_results_of_ranks_are_mapped_by_request(stage):
    """DIFF-RUNTIME-INV-005."""
    stage.schedule("a", "b")
    for worker in reversed(stage.workers):
        call_id = call_of(worker)
        worker.packed(call_id)
        worker.computed(call_id)
    found = {o.request_id: (o.result.rank, o.result.seed) for o in stage.wait() if o.result}
    assert found == {"a": (0, 0), "b": (1, 1)}


def test_an_aborted_forward_is_told_and_its_end_is_dropped(stage, worker, call_id, is_quiet):
    stage.schedule(finished=["a"])
    assert worker.heard() == [m.AbortCall(call_id=call_id)]
    worker.say(m.StepDone(call_id=call_id, step=1, total_steps=2))
    worker.computed(call_id, reason=CancelledError.reason, message="cancelled between two steps")
    assert stage.wait() == []
    assert stage.progress == []
    assert is_quiet()


def test_a_forward_that_ended_before_its_abort_arrived_is_dropped(stage, worker, call_id, is_quiet):
    stage.schedule(finished=["a"])
    worker.computed(call_id)
    worker.packed(call_id)
    assert stage.wait() == []
    assert is_quiet()


@pytest.mark.parametrize("crossing", ["before", "after"])
def test_shared_memory_of_an_aborted_request_goes_back(stage, worker, call_id, is_quiet, crossing):
    if crossing == "before":
        stage.schedule(finished=["a"])
    worker.computed(call_id)
    stage.wait()
    if crossing == "after":
        stage.schedule(finished=["a"])
    segment(worker, call_id, segment_id=7)
    assert stage.wait() == []
    assert m.ReleaseSegment(segment_id=7) in worker.heard()
    assert stage.executor._handles[0].segments.open_leases == 0
    assert is_quiet()


def test_the_next_request_of_an_id_is_told_apart_from_the_last(stage, is_quiet):
    """RUNTIME-RULE-2."""
    stage.schedule("a")
    first = call_of(stage.workers[0])
    stage.schedule("a", finished=["a"])  # aborted, and submitted again, in one turn
    second = call_of(stage.workers[1])
    assert stage.workers[0].heard() == [m.AbortCall(call_id=first)]
    stage.workers[0].say(m.StepDone(call_id=first, step=9, total_steps=9))
    stage.workers[0].packed(first)
    stage.workers[0].computed(first)
    stage.workers[1].packed(second)
    stage.workers[1].computed(second)
    (output,) = stage.wait()
    assert output.result.rank == 1
    assert stage.progress == []
    assert is_quiet()


def test_the_end_of_a_completed_request_needs_no_message(stage, worker, call_id):
    worker.packed(call_id)
    stage.wait()
    stage.schedule(finished=["a"])
    assert worker.heard() == []


def test_a_busy_worker_gets_the_next_request_last(stage):
    stage.schedule("a")
    stage.schedule("b")
    stage.schedule("c", finished=["a", "b"])  # both are still at their last step
    assert [len(worker.heard()) for worker in stage.workers] == [3, 2]


def test_an_output_in_shared_memory_is_a_view_until_it_is_released(stage, worker, call_id):
    segment(worker, call_id, segment_id=5)
    (output,) = stage.wait()
    assert bytes(output.result.data[0]) == b"abc"
    assert worker.heard() == []
    output.result.release()
    output.result.release()
    assert worker.heard() == [m.ReleaseSegment(segment_id=5)]


def test_a_known_segment_comes_again_without_descriptor(stage, worker, call_id):
    segment(worker, call_id, segment_id=5)
    stage.wait()[0].result.release()
    worker.computed(call_id)
    stage.wait()
    stage.schedule("b")
    segment(worker, call_of(worker), segment_id=5, descriptor=False)
    (output,) = stage.wait()
    assert bytes(output.result.data[0]) == b"abc"


def test_segments_that_the_worker_dropped_are_forgotten(stage, worker, call_id):
    segment(worker, call_id, segment_id=5)
    stage.wait()[0].result.release()
    worker.computed(call_id)
    stage.wait()
    stage.schedule("b")
    worker.packed(call_of(worker), specs=(PIXEL,), inline=(b"rgb",), dropped=(5,))
    stage.wait()
    assert stage.executor._handles[0].segments._mapped == {}


def test_an_output_can_be_released_after_its_worker_died(stage, worker, call_id):
    segment(worker, call_id)
    (output,) = stage.wait()
    worker.end(-9)
    output.result.release()


def test_a_method_is_called_on_all_ranks_and_answers_in_their_order(stage):
    values = stage.executor.collective_rpc("report", {"deep": True})
    for rank, worker in reversed(list(enumerate(stage.workers))):
        (call,) = worker.heard()
        assert (call.method, call.args) == ("report", {"deep": True})
        assert not values.done()
        worker.say(m.MethodDone(call_id=call.call_id, value=f"rank {rank}"))
        stage.wait()
    assert values.result(timeout=0) == ["rank 0", "rank 1"]
    assert stage.executor._rpcs == {}


def test_any_ranks_error_fails_the_call(stage):
    values = stage.executor.collective_rpc("report", {})
    for worker, error in zip(stage.workers, (None, "rank 1: KeyError: 'x'"), strict=True):
        (call,) = worker.heard()
        worker.say(m.MethodDone(call_id=call.call_id, error=error))
    stage.wait()
    with pytest.raises(InternalError, match="report: rank 1: KeyError: 'x'"):
        values.result(timeout=0)


def test_a_silent_worker_is_asked_for_a_sign_of_life_once(stage, worker, monkeypatch):
    monkeypatch.setattr("diffusion_stage.executor.multiproc.PULSE_S", -1)
    for _ in range(3):
        stage.executor.wait(0)
    assert worker.heard() == [m.AreYouThere()]
    worker.say(m.HereIAm())
    stage.wait()
    stage.executor.wait(0)
    assert worker.heard() == [m.AreYouThere()]


def test_a_call_that_takes_too_long_fails_and_its_late_answer_is_no_others(make_stage):
    """A17, and 7.3/43: replies are read by their call's id."""
    stage = make_stage(num_gpus=2)
    stage.executor.start()
    late = stage.executor.collective_rpc("report", {}, timeout_s=0.05)
    (first, second) = (worker.heard()[-1].call_id for worker in stage.workers)
    stage.workers[0].say(m.MethodDone(call_id=first, value=0))
    stage.executor.wait(10)
    stage.executor.wait(10)
    stage.executor.wait(0)
    with pytest.raises(DeadlineExceededError, match=r"report: no answer of rank 1 in 0\.05 s"):
        late.result(timeout=0)
    again = stage.executor.collective_rpc("report", {})
    calls = [worker.heard()[-1].call_id for worker in stage.workers]
    stage.workers[1].say(m.MethodDone(call_id=second, value="late"))
    for worker, call_id in zip(stage.workers, calls, strict=True):
        worker.say(m.MethodDone(call_id=call_id, value="in time"))
    stage.wait()
    assert again.result(timeout=0) == ["in time", "in time"]
    assert stage.executor._rpcs == {}
