"""Control calls pass through the loop, and each gets one answer, also when the engine ends."""

import pytest

from diffusion_stage.engine.controls import ControlCalls
from diffusion_stage.errors import EngineDeadError, InternalError, WorkerDiedError


def test_a_call_is_made_by_the_loop_and_its_values_come_back(engine, executor, run, add):
    values = engine.collective_rpc("report", {"deep": True})
    assert executor.calls == []
    executor.then(lambda: executor.calls[0][2].set_result(["rank 0"]), engine.close)
    add("a")
    run()
    assert executor.calls[0][:2] == ("report", {"deep": True})
    assert values.result(timeout=0) == ["rank 0"]


def test_an_error_comes_back_as_it_is(engine, executor, run, add):
    values = engine.collective_rpc("report", {})
    error = InternalError("rank 1: KeyError: 'x'")
    executor.then(lambda: executor.calls[0][2].set_exception(error), engine.close)
    add("a")
    run()
    assert values.exception(timeout=0) is error


def test_a_caller_that_gave_up_is_no_trouble(engine, executor, run, add):
    assert engine.collective_rpc("report", {}).cancel()
    executor.then(lambda: executor.calls[0][2].set_result([]), engine.close)
    add("a")
    run()


@pytest.mark.parametrize("end", ["close", "fail"])
def test_calls_that_have_not_begun_fail_with_the_engine(engine, end):
    values = engine.collective_rpc("report", {})
    engine.close() if end == "close" else engine.fail(WorkerDiedError("gone"))
    with pytest.raises(EngineDeadError):
        values.result(timeout=0)


def test_calls_after_the_end_fail_at_once(engine):
    engine.close()
    with pytest.raises(EngineDeadError):
        engine.collective_rpc("report", {}).result(timeout=0)


def test_calls_are_taken_once():
    calls = ControlCalls()
    calls.add("report", {})
    assert len(calls.take()) == 1
    assert calls.take() == []
