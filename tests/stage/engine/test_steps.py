"""The engine's loop in step mode: a turn of the scheduler for each step of the workers."""

from dataclasses import replace

import pytest

from diffusion_stage.capabilities import BatchFields
from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import CancelledError, ConfigError, InternalError
from diffusion_stage.outputs import (
    BatchRunnerOutput,
    ChunkReady,
    RunnerOutput,
    StepBatch,
    StepProgress,
)
from tests.stage.builders import CAPABILITIES, make_output, make_request


def capable(**given):
    return replace(CAPABILITIES, **given)


FIELDS = BatchFields(key=("height",), free=tuple(CAPABILITIES.parameters))


@pytest.fixture
def engine(make_engine):
    engine = make_engine(step_execution=True, max_num_seqs=2)
    engine.executor.capabilities = capable(step_batch=FIELDS)
    engine.start()
    return engine


class Steps:
    """Each request takes `total` steps; `chunks` names steps after which a chunk comes."""

    def __init__(self, total=3, chunks=()):
        self.taken = {}
        self._total, self._chunks = total, chunks

    def __call__(self, request_id):
        step = self.taken[request_id] = self.taken.get(request_id, 0) + 1
        is_finished = step == self._total
        has_output = is_finished or step in self._chunks
        return RunnerOutput(
            request_id,
            step_index=step,
            total_steps=self._total,
            is_finished=is_finished,
            result=make_output(seed=step) if has_output else None,
        )


def test_a_request_takes_its_steps_and_ends(add, run, executor, consumer, engine):
    executor.steps = Steps(total=3)
    stream = add("a")
    run()
    assert consumer.events[stream][:2] == [StepProgress(1, 3), StepProgress(2, 3)]
    assert consumer.output(stream).seed == 3
    assert executor.scheduled == [("a",)] * 3 + [()]
    assert executor.retired == ["a"], "the workers are told, also when nothing else is scheduled"
    assert engine.load() == EngineLoad(0, 0, 0)


def test_requests_join_between_steps(add, run, executor, consumer):
    """Each at a step of its own."""
    steps = Steps(total=3)

    def and_another(request_id):
        if steps.taken.get("a") == 1 and "b" not in streams:
            streams["b"] = add("b")
        return steps(request_id)

    executor.steps = and_another
    streams = {"a": add("a")}
    run()
    assert executor.scheduled[:4] == [("a",), ("a",), ("a", "b"), ("b",)]
    assert all(consumer.output(stream).seed == 3 for stream in streams.values())


def test_chunks_come_in_order_before_the_end(add, run, executor, consumer):
    """A27."""
    executor.steps = Steps(total=4, chunks=(1, 3))
    stream = add("a")
    run()
    chunks = [e for e in consumer.events[stream] if isinstance(e, ChunkReady)]
    assert [(chunk.index, chunk.output.seed) for chunk in chunks] == [(0, 1), (1, 3)]
    assert consumer.output(stream).seed == 4


def test_a_chunk_for_a_reader_that_left_is_released(add, run, executor, consumer):
    released = []

    def steps(request_id):
        stream.close()
        return RunnerOutput(
            request_id,
            step_index=1,
            total_steps=1,
            result=make_output(release=lambda: released.append(1)),
        )

    executor.steps = steps
    stream = add("a")
    run()
    assert released == [1]
    assert consumer.ends(stream) == []


def test_an_abort_during_a_step_ends_the_request_before_the_step_does(
    engine, add, run, executor, consumer
):
    def step(output):
        executor.scheduled.append(output.scheduled_request_ids)
        executor.retired += output.finished_req_ids
        return BatchRunnerOutput(step_id=None if output.scheduled_request_ids else output.step_id)

    def finish_step():
        assert isinstance(consumer.error(stream), CancelledError)
        assert executor.scheduled == [("a",)], "no step before the end of the one before"
        return BatchRunnerOutput([Steps()("a")], step_id=1)

    executor.execute_step = step
    engine._execute = step
    stream = add("a")
    executor.then(lambda: engine.abort(stream), finish_step)
    run()
    assert executor.retired == ["a"]


def test_a_request_that_the_step_says_nothing_of_fails(add, run, executor, consumer):
    executor.steps = lambda request_id: None
    stream = add("a")
    run()
    assert isinstance(consumer.error(stream), InternalError)
    assert "no output for request 'a'" in str(consumer.error(stream))


def test_incompatible_requests_take_turns(engine, run, executor, consumer):
    executor.steps = Steps(total=1)
    for number in range(4):
        engine.add_request(
            make_request(f"{number}", params={"prompt": "x", "height": 16 * (1 + number // 2)}),
            consumer.notify,
        )
    run()
    assert executor.scheduled == [("0", "1"), ("2", "3"), ()]


def test_a_pipeline_that_takes_no_steps_fails_the_start(make_engine):
    """A14, and RUNTIME-RULE-9: with the root cause, and with the workers ended."""
    engine = make_engine(step_execution=True)
    with pytest.raises(ConfigError, match="FakePipeline does not run step by step"):
        engine.start()
    assert engine.executor.shutdowns


def test_figures_of_the_batches(engine):
    engine.figures.stepped([StepBatch(3, 20.0), StepBatch(3, 30.0), StepBatch(1, 10.0)])
    assert engine.figures.sizes == {3: 2, 1: 1}
    assert engine.figures.step.sum == pytest.approx(0.06)
    buckets = dict(engine.figures.batch_size.cumulative())
    assert (buckets["1"], buckets["2"], buckets["4"], buckets["+Inf"]) == (1, 1, 3, 3)
