"""Steps over several workers, played by the test: one message out to each, one answer back."""

import os

import pytest

from diffusion_stage.errors import AcceleratorError, InternalError, WorkerDiedError
from diffusion_stage.scheduler.output import (
    CachedRequestData,
    DiffusionSchedulerOutput,
    NewRequestData,
)
from diffusion_stage.worker import messages as m
from tests.stage.builders import PIXEL, make_request


@pytest.fixture
def stage(make_stage):
    stage = make_stage(num_gpus=2, step_execution=True, max_num_seqs=2)
    stage.executor.start()
    for worker in stage.workers:
        worker.heard()
    return stage


@pytest.fixture
def step(stage):
    """Executes one step of these new and known requests; returns what is done at once."""
    numbers = iter(range(1, 100))

    def execute(*new, cached=(), finished=()):
        requests = [make_request(request_id, seed=7) for request_id in new]
        return stage.executor.execute_step(
            DiffusionSchedulerOutput(
                step_id=next(numbers),
                scheduled_new_reqs=tuple(NewRequestData(r.request_id, r) for r in requests),
                scheduled_cached_reqs=CachedRequestData(tuple(cached)),
                finished_req_ids=frozenset(finished),
                num_running_reqs=0,
                num_waiting_reqs=0,
            )
        )

    return execute


def told(worker):
    (message,) = worker.heard()
    return message


def ids(message):
    return [request.request_id for request in message.new]


def taken(request_id, **given):
    return m.StepTaken(request_id=request_id, **{"step_index": 1, "total_steps": 4} | given)


def answer(worker, told_by, *outcomes, **given):
    worker.say(m.StepsTaken(call_id=told_by.call_id, taken=outcomes, **given))


def result(stage):
    """The end of the step, None while a worker has not answered."""
    output = None
    while stage.has_news:
        output = stage.executor.wait(0) or output
    return output


def test_new_requests_are_shared_and_stay_where_they_are(stage, step):
    step("a", "b", "c")
    first, second = told(stage.workers[0]), told(stage.workers[1])
    assert (ids(first), ids(second)) == (["a", "c"], ["b"])
    answer(stage.workers[0], first, taken("a"), taken("c"))
    answer(stage.workers[1], second, taken("b"))
    assert result(stage).step_id == 1
    step("d", cached=["a", "b", "c"], finished=[])
    again, other = told(stage.workers[0]), told(stage.workers[1])
    assert (again.cached, other.cached) == (("a", "c"), ("b",))
    assert (ids(again), ids(other)) == ([], ["d"])


def test_a_step_is_over_when_every_rank_has_answered(stage, step):
    step("a", "b")
    first, second = (told(worker) for worker in stage.workers)
    answer(stage.workers[1], second, taken("b"), batch_size=1, step_ms=5.0)
    assert result(stage) is None
    answer(stage.workers[0], first, taken("a"), batch_size=1, step_ms=7.0)
    output = result(stage)
    assert {each.request_id for each in output.outputs} == {"a", "b"}
    assert sorted((b.size, b.step_ms) for b in output.batches) == [(1, 5.0), (1, 7.0)]


def test_ranks_that_have_nothing_are_left_alone(stage, step):
    step("a")
    assert stage.workers[1].heard() == []
    answer(stage.workers[0], told(stage.workers[0]), taken("a"))
    assert result(stage).step_id == 1


def test_a_finished_request_is_told_to_its_rank_alone_and_frees_its_place(stage, step):
    step("a", "b")
    for worker, request_id in zip(stage.workers, "ab", strict=True):
        answer(worker, told(worker), taken(request_id))
    result(stage)
    assert step(finished=["b"]).step_id is None
    retire = told(stage.workers[1])
    assert (retire.new, retire.cached, retire.finished) == ((), (), ("b",))
    answer(stage.workers[1], retire)
    assert result(stage).step_id == 2
    step("c", cached=["a"])
    assert ids(told(stage.workers[1])) == ["c"]


def test_an_id_may_end_and_come_again_in_one_step(stage, step):
    step("a", "b")
    for worker, request_id in zip(stage.workers, "ab", strict=True):
        answer(worker, told(worker), taken(request_id))
    result(stage)
    step("a", cached=["b"], finished=["a"])
    message = told(stage.workers[0])
    assert (ids(message), message.finished) == (["a"], ("a",))


def test_the_outcomes_become_news_of_their_requests(stage, step):
    step("a", "b", "c")
    first, second = (told(worker) for worker in stage.workers)
    packed = m.Packed(specs=(PIXEL,), inline=(b"rgb",))
    answer(
        stage.workers[0],
        first,
        taken("c", reason="INTERNAL", message="a bug", is_finished=True),
        taken("a", packed=packed),
    )
    last = taken("b", step_index=4, is_finished=True, packed=packed)
    answer(stage.workers[1], second, last)
    news = {each.request_id: each for each in result(stage).outputs}
    chunk, end, error = news["a"], news["b"], news["c"]
    assert (chunk.is_finished, chunk.step_index, chunk.result.data) == (False, 1, (b"rgb",))
    assert (end.is_finished, end.result.rank, end.result.seed) == (True, 1, 7)
    assert isinstance(error.error, InternalError)


def test_outputs_in_shared_memory_come_with_their_descriptors(stage, step):
    step("a", "b", "c", "d")
    message = told(stage.workers[0])
    answer(stage.workers[1], told(stage.workers[1]), taken("b"), taken("d"))
    files = []
    for letter in b"xy":
        files.append(os.memfd_create("test"))
        os.truncate(files[-1], 4096)
        os.pwrite(files[-1], bytes([letter] * 3), 0)
    outcomes = [
        taken(i, packed=m.Packed(specs=(PIXEL,), segment_id=n, offsets=(0,)))
        for n, i in enumerate("ac")
    ]
    stage.workers[0].say(m.StepsTaken(call_id=message.call_id, taken=tuple(outcomes)), files)
    news = {each.request_id: each.result for each in result(stage).outputs if each.result}
    assert {i: bytes(output.data[0]) for i, output in news.items()} == {"a": b"xxx", "c": b"yyy"}
    for output in news.values():
        output.release()
    assert {each.segment_id for each in stage.workers[0].heard()} == {0, 1}
    for file in files:
        os.close(file)


def test_a_worker_that_dies_in_a_step_ends_the_engine(stage, step):
    step("a", "b")
    answer(stage.workers[0], told(stage.workers[0]), taken("a", step_index=3))
    stage.workers[1].end(-9)
    with pytest.raises(WorkerDiedError, match=r"worker 1 \(cpu:1\) was killed by SIGKILL"):
        result(stage)


def test_a_lost_device_ends_the_engine(stage, step):
    step("a")
    message = told(stage.workers[0])
    failed = taken("a", reason="INTERNAL", message="lost", is_finished=True)
    answer(
        stage.workers[0], message, failed, fatal="AcceleratorUnusable", message="the device is lost"
    )
    with pytest.raises(AcceleratorError, match="the device is lost"):
        result(stage)


def test_a_busy_rank_is_seen_at_its_furthest_step(stage, step):
    step("a", "b", "c")
    answer(stage.workers[0], told(stage.workers[0]), taken("a", step_index=9), taken("c"))
    answer(stage.workers[1], told(stage.workers[1]), taken("b"))
    result(stage)
    assert [each.busy_since for each in stage.executor.activity()] == [None, None]
    step(cached=["a", "b", "c"])
    assert [each.step for each in stage.executor.activity()] == [9, 1]
    assert all(each.busy_since for each in stage.executor.activity())
