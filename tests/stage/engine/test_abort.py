"""An abort, whenever it comes: one end, and all is given back (DIFF-RUNTIME-INV-003)."""

import pytest

from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import CancelledError, UnavailableError
from tests.stage.builders import computed, done, failed, make_output


class Lender:
    """Makes outputs that somebody must release."""

    def __init__(self):
        self.released = []

    def done(self, request_id):
        return done(request_id, make_output(release=lambda: self.released.append(request_id)))


@pytest.fixture
def lender():
    return Lender()


def each(abort, *streams):
    """A turn that aborts all of these."""

    def turn():
        for stream in streams:
            abort(stream)

    return turn


def cancelled(consumer, stream):
    return isinstance(consumer.error(stream), CancelledError)


def test_a_waiting_request_ends_without_a_start(add, run, executor, consumer, engine):
    running, waiting = add("a"), add("b")
    executor.then(lambda: engine.abort(waiting), done("a"))
    run()
    assert cancelled(consumer, waiting)
    assert consumer.output(running)
    assert (executor.started, executor.retired) == (["a"], ["a"])


def test_waiting_requests_end_although_nothing_else_happens(add, run, consumer, engine, executor):
    """RUNTIME-RULE-3. Abort of all: the last one's end depends on no other traffic."""
    streams = [add("a"), add("b")]
    executor.then(each(engine.abort, *streams))
    run()
    assert [cancelled(consumer, stream) for stream in streams] == [True, True]
    assert executor.retired == ["a"]
    assert engine.load() == EngineLoad(0, 0, 0)


def test_a_running_forward_is_stopped_and_its_worker_told(add, run, executor, consumer, engine):
    stream = add("a")
    executor.then(lambda: engine.abort(stream))
    run()
    assert cancelled(consumer, stream)
    assert executor.cancelled == ["a"]
    assert executor.retired == ["a"]


def test_a_waiting_request_is_not_cancelled_in_the_executor(add, run, executor, engine):
    """It would cancel the next request of that id, for a worker never hears of this one's end."""
    engine.abort(add("a"))
    run()
    assert executor.cancelled == []


def test_an_output_on_its_way_is_released(add, run, executor, consumer, engine, lender):
    stream = add("a")
    executor.then(computed("a"), lambda: engine.abort(stream))
    run()
    assert cancelled(consumer, stream)
    assert executor.retired == ["a"]
    executor.then(lender.done("a"))
    add("next")
    executor.then(done("next"))
    run()
    assert lender.released == ["a"]


def test_an_output_that_crosses_the_abort_is_released(add, run, executor, consumer, engine, lender):
    """The abort comes first: in the loop's next turn the output finds its request ended."""
    stream = add("a")
    executor.answers = lambda request: engine.abort(stream)  # while the forward is handed over
    executor.then(None, lender.done("a"), done("next"))
    run()
    executor.answers = lambda request: None
    add("next")
    run()
    assert cancelled(consumer, stream)
    assert lender.released == ["a"]


def test_the_aborts_own_error_is_the_end_also_when_the_forward_stops_by_it(
    add, run, executor, consumer, engine
):
    """As with `uni`, where the forward has run by the time that its start is known."""
    stream = add("a")
    over = UnavailableError("the drain time is over")

    def answer(request):
        engine.abort(stream, over)
        return failed("a", CancelledError("cancelled between two steps"))

    executor.answers = answer
    run()
    assert consumer.error(stream) is over


def test_an_abort_after_the_end_changes_nothing(add, run, executor, consumer, engine):
    stream = add("a")
    executor.then(done("a"))
    run()
    engine.abort(stream)
    run()
    assert consumer.output(stream)
    assert executor.cancelled == []


def test_a_second_abort_changes_nothing(add, run, executor, consumer, engine):
    stream = add("a")
    executor.then(each(engine.abort, stream, stream))
    run()
    assert cancelled(consumer, stream)


def test_an_abort_means_its_own_attempt_only(add, run, executor, consumer, engine):
    first = add("a")
    executor.then(done("a"))
    run()
    second = add("a", attempt=2)
    executor.then(lambda: engine.abort(first), done("a"))
    run()
    assert consumer.output(second)


def test_a_reader_that_left_keeps_no_output(add, run, executor, lender):
    """Dropping a consumer drops its output; the request's own end is the engine's."""
    stream = add("a")
    stream.close()
    executor.then(lender.done("a"))
    run()
    assert lender.released == ["a"]
