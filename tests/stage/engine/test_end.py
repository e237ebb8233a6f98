"""The end of an engine: every request gets its own, typed and retryable, whatever ended it."""

import threading

import pytest

from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import (
    EngineDeadError,
    EngineDiedError,
    ModelError,
    UnavailableError,
    WorkerDiedError,
)
from tests.fakes.executor import StuckError
from tests.stage.builders import computed, done, make_output

DEATH = WorkerDiedError("worker 1 was killed by SIGKILL", rank=1, signal=9)


def test_a_death_ends_every_request_with_a_retryable_error(add, run, executor, consumer, engine):
    """RUNTIME-RULE-1."""
    streams = [add("a"), add("b"), add("c")]
    executor.then(computed("a"), DEATH)
    with pytest.raises(WorkerDiedError) as died:
        run()
    assert died.value is DEATH
    errors = [consumer.error(stream) for stream in streams]
    assert {type(error) for error in errors} == {EngineDeadError}
    assert all(error.retryable for error in errors)
    assert {str(error) for error in errors} == {"WorkerDied: worker 1 was killed by SIGKILL"}
    assert engine.load() == EngineLoad(0, 0, 0)


def test_a_dead_engine_says_so(add, run, executor, engine):
    executor.then(DEATH)
    with pytest.raises(WorkerDiedError):
        engine.run(lambda: False)
    for ask in (engine.check_health, engine.admission, lambda: add("b")):
        with pytest.raises(EngineDeadError, match="killed by SIGKILL"):
            ask()


def test_an_exception_in_the_loop_is_a_death_and_its_words_are_told(add, run, executor, consumer):
    stream = add("a")
    executor.then(KeyError("a bug"))
    with pytest.raises(EngineDiedError, match="KeyError: 'a bug'") as died:
        run()
    assert died.value.exit_code == 70
    assert isinstance(consumer.error(stream), EngineDeadError)


def test_what_was_answered_before_a_death_stays_answered(add, run, executor, consumer):
    stream = add("a")
    executor.then(done("a"))
    run()
    executor.then(DEATH)
    add("b")
    with pytest.raises(WorkerDiedError):
        run()
    assert consumer.output(stream)


def test_a_death_that_another_thread_tells_of_ends_the_loop_quietly(
    add, run, executor, consumer, engine
):
    """As the watchdog does: it fails the engine and takes the workers away under the loop."""
    stream = add("a")

    def hang():
        watchdog = threading.Thread(target=engine.fail, args=(DEATH,))
        watchdog.start()
        watchdog.join()
        return WorkerDiedError("worker 0 was killed by SIGKILL, for that is how it was ended")

    executor.then(hang)
    run()
    assert "worker 1 was killed" in str(consumer.error(stream))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_close_is_idempotent_and_ends_what_lives(add, consumer, engine, executor, times):
    """RUNTIME-RULE-10."""
    streams = [add("a"), add("b")]
    for _ in range(times):
        engine.close(grace_s=1.0)
    assert {type(consumer.error(stream)) for stream in streams} == {UnavailableError}
    assert executor.shutdowns == [1.0] * times
    with pytest.raises(EngineDeadError, match="the engine is closed"):
        add("c")


def test_close_ends_a_loop_that_waits(add, run, executor, engine):
    add("a")
    executor.then(engine.close)
    run()
    assert executor.wakes > 0


def test_close_releases_what_arrives_afterwards(add, run, executor, engine):
    released = []
    add("a")

    def turn():
        engine.close()
        return done("a", make_output(release=lambda: released.append("a")))

    executor.then(turn)
    run()
    assert released == ["a"]


def test_a_loop_that_is_asked_to_end_ends_when_there_is_no_work(add, executor, engine):
    add("a")
    executor.then(None, done("a"))
    engine.run(lambda: True)
    with pytest.raises(StuckError):
        engine.run(lambda: False)


def test_a_failed_start_closes_what_was_opened(make_engine):
    engine = make_engine()
    engine.executor.failure = ModelError("no such model")
    with pytest.raises(ModelError):
        engine.start()
    assert engine.executor.shutdowns == [0]


def test_a_start_that_fails_with_an_exception_says_which(make_engine):
    engine = make_engine()
    engine.executor.failure = BlockingIOError("no more processes")
    with pytest.raises(EngineDiedError, match="BlockingIOError: no more processes"):
        engine.start()
    assert engine.executor.shutdowns == [0]
