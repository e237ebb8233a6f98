"""One request's life in the engine: admission, progress, its one end, and what is kept after it."""

import time

import pytest

from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)
from diffusion_stage.outputs import RunnerOutput, StepProgress
from tests.stage.builders import computed, done, failed, make_output, make_request

NOTHING = EngineLoad(0, 0, 0)


def test_a_request_runs_and_its_output_arrives(add, run, executor, consumer, engine):
    stream = add("a")
    output = make_output(seed=7)
    executor.then(done("a", output))
    run()
    assert consumer.output(stream) is output
    assert engine.load() == NOTHING


def test_progress_comes_before_the_end(add, run, executor, consumer):
    stream = add("a")
    executor.then(lambda: executor.step("a", 1, 2), lambda: executor.step("a", 2, 2), done("a"))
    run()
    assert consumer.events[stream][:2] == [StepProgress(1, 2), StepProgress(2, 2)]
    assert len(consumer.events[stream]) == 3


def test_progress_of_a_request_that_has_ended_reaches_nobody(add, run, executor, consumer):
    stream = add("a")
    executor.then(done("a"), lambda: executor.step("a", 9, 9))
    run()
    executor.step("a", 9, 9)
    assert len(consumer.events[stream]) == 1


def test_results_go_to_their_requests_whatever_the_order(make_engine, consumer):
    """DIFF-RUNTIME-INV-005."""
    engine = make_engine(num_gpus=2)
    engine.start()
    streams = {i: engine.add_request(make_request(i), consumer.notify) for i in ("a", "b")}
    outputs = {i: make_output(seed=n) for n, i in enumerate(streams)}
    engine.executor.then([done("b", outputs["b"]), done("a", outputs["a"])])
    engine.run(lambda: True)
    assert {i: consumer.output(stream) for i, stream in streams.items()} == outputs


def test_one_failure_leaves_its_neighbours_alone(make_engine, consumer):
    engine = make_engine(num_gpus=2)
    engine.start()
    bad, good = (engine.add_request(make_request(i), consumer.notify) for i in ("bad", "good"))
    error = InternalError("its own")
    engine.executor.then([failed("bad", error), computed("good")], done("good"))
    engine.run(lambda: True)
    assert consumer.error(bad) is error
    assert consumer.output(good)


def test_the_next_forward_starts_while_an_output_is_packed(add, run, executor, consumer, engine):
    first, second = add("a"), add("b")
    loads = []
    executor.then(
        computed("a"),
        lambda: loads.append(engine.load()) or done("b"),
        done("a"),
    )
    run()
    assert executor.started == ["a", "b"]
    assert loads == [EngineLoad(waiting=0, running=1, materializing=1)]
    assert consumer.output(first)
    assert consumer.output(second)


def test_a_packed_output_may_arrive_with_the_word_that_it_will(add, run, executor, consumer):
    stream = add("a")
    output = make_output()
    executor.then([computed("a"), done("a", output)])
    run()
    assert consumer.output(stream) is output


def test_a_forward_without_output_is_an_error(add, run, executor, consumer):
    stream = add("a")
    executor.then(RunnerOutput("a"))
    run()
    assert isinstance(consumer.error(stream), InternalError)


def test_the_workers_are_told_of_each_end_at_once(add, run, executor):
    """A retirement-only tick: nothing else is scheduled."""
    add("a")
    executor.then(done("a"))
    run()
    assert executor.retired == ["a"]


def test_an_id_in_use_is_refused_and_the_first_goes_on(add, run, executor, consumer):
    stream = add("a")
    with pytest.raises(AlreadyExistsError):
        add("a")
    executor.then(done("a"))
    run()
    assert consumer.output(stream)


def test_an_id_can_be_used_again_after_its_end(add, run, executor, consumer):
    first = add("a")
    executor.then(done("a"))
    run()
    second = add("a", attempt=2)
    executor.then(done("a"))
    run()
    assert consumer.output(first)
    assert consumer.output(second)
    assert executor.retired == ["a", "a"]


def test_more_waiting_requests_than_allowed_are_refused(make_engine, consumer):
    engine = make_engine(max_queue=2)
    engine.start()
    engine.executor.answers = lambda request: done(request.request_id)
    for number in range(3):  # one that can run at once, and two that wait
        engine.add_request(make_request(f"{number}"), consumer.notify)
    with pytest.raises(ResourceExhaustedError, match="2 requests wait already; allowed: 2"):
        engine.add_request(make_request("too many"), consumer.notify)
    assert engine.load().waiting == 3
    engine.run(lambda: True)
    engine.add_request(make_request("later"), consumer.notify)


def test_a_deadline_ends_a_request_that_waits(add, run, executor, consumer):
    running, late = add("a"), add("b", deadline_at=time.monotonic() - 1)
    executor.then(done("a"))
    run()
    assert executor.started == ["a"]
    assert isinstance(consumer.error(late), DeadlineExceededError)
    assert consumer.output(running)


def test_a_deadline_ends_a_request_that_runs_and_its_worker_is_told(add, run, executor, consumer):
    stream = add("a", deadline_at=time.monotonic() + 0.05)
    executor.then(lambda: time.sleep(0.06))
    run()
    assert isinstance(consumer.error(stream), DeadlineExceededError)
    assert executor.retired == ["a"]


def test_the_loop_sleeps_no_longer_than_to_the_next_deadline(add, run, executor):
    add("a", deadline_at=time.monotonic() + 0.5)
    executor.then(done("a"))
    run()
    assert 0 < executor.timeouts[0] <= 0.5


def test_a_loading_engine_refuses_requests(make_engine, consumer):
    engine = make_engine()
    with pytest.raises(UnavailableError, match="the model is loading"):
        engine.add_request(make_request("a"), consumer.notify)
    with pytest.raises(UnavailableError, match="the model is loading"):
        engine.admission()


def test_a_refusing_engine_finishes_what_it_admitted(add, run, executor, consumer, engine):
    stream = add("a")
    engine.refuse(UnavailableError("draining"))
    for ask in (engine.admission, lambda: add("b")):
        with pytest.raises(UnavailableError, match="draining"):
            ask()
    executor.then(done("a"))
    run()
    assert consumer.output(stream)


def test_all_that_lives_can_be_ended_with_one_error(add, run, consumer, engine):
    streams = [add("a"), add("b")]
    over = UnavailableError("the drain time is over")
    engine.executor.then(lambda: engine.end_all(over))
    run()
    assert [consumer.error(stream) for stream in streams] == [over, over]


def test_an_abort_is_told_with_the_word_cancelled(add, run, consumer, engine):
    stream = add("a")
    engine.executor.then(lambda: engine.abort(stream))
    run()
    assert isinstance(consumer.error(stream), CancelledError)
