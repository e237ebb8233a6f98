"""What both executors must do alike, seen through an engine on real workers (RUNTIME-RULE-11)."""

import os
import queue
import threading
import time

import numpy as np
import pytest

from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.errors import (
    CancelledError,
    DeadlineExceededError,
    EngineDeadError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from diffusion_stage.outputs import Completed, Failed, StepProgress
from diffusion_stage.request import InputTensor
from diffusion_stage.wire.tensors import array, describe, frame
from tests.fakes.pipelines import picture
from tests.stage.builders import make_config, make_request
from tests.stage.process import FAKE, ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PROMPT = "a red circle"
WAIT_S = 60
ENDLESS = {"num_inference_steps": 10_000, "step_s": 0.02}


class Job:
    """A request, and its events in order."""

    def __init__(self, engine, request):
        self._events = queue.SimpleQueue()
        self._engine = engine
        self.stream = engine.add_request(request, self._note)

    def _note(self, stream):
        for event in stream.take():
            self._events.put(event)

    def next(self):
        return self._events.get(timeout=WAIT_S)

    def stepped(self):
        """Waits for the first step."""
        assert isinstance(self.next(), StepProgress)
        return self

    def end(self):
        while not isinstance(event := self.next(), Completed | Failed):
            pass
        assert self._events.empty(), "nothing comes after the end"
        return event

    def error(self):
        return self.end().error

    def pixels(self):
        """The image; its memory is given back."""
        output = self.end().output
        pixels = array(output.specs[0], output.data[0])[0].copy()
        output.release()
        return pixels

    def abort(self):
        self._engine.abort(self.stream)


MODES = {
    "uni": {"executor": "uni"},
    "mp": {"executor": "mp"},
    "uni, steps": {"executor": "uni", "step_execution": True, "max_num_seqs": 1},
    "mp, steps": {"executor": "mp", "step_execution": True, "max_num_seqs": 1},
    "uni, fused": {"executor": "uni", "max_num_seqs": 2},
    "mp, fused": {"executor": "mp", "max_num_seqs": 2},
}
KINDS = {"steps": "Steps", "fused": "Batches"}


@pytest.fixture(scope="module", params=MODES)
def engine(request, tmp_path_factory):
    """Warm and serving, its loop in a thread; ended after the module's tests."""
    kind = KINDS.get(request.param.rpartition(", ")[2], "Pipeline")
    folder = tmp_path_factory.mktemp("model")
    (folder / "model_index.json").write_text("{}")
    config = make_config(
        model=str(folder),
        pipeline_class=f"{FAKE}:{kind}",
        worker_extension=f"{FAKE}:Extension",
        warmup=True,
        **MODES[request.param],
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    engine = DiffusionEngine.make_engine(config)
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    loop = threading.Thread(target=engine.run, args=[lambda: False])
    loop.start()
    yield engine
    engine.close()
    loop.join(timeout=WAIT_S)
    assert not loop.is_alive()


@pytest.fixture
def run(engine):
    """Starts a request of these parameters; after the test nothing may be left of any."""

    def start(request_id="a", *, inputs=(), seed=0, output="image", deadline_s=None, **params):
        deadline_at = None if deadline_s is None else time.monotonic() + deadline_s
        params = {"prompt": PROMPT} | params
        return Job(
            engine,
            make_request(
                request_id,
                params=params,
                inputs=inputs,
                seed=seed,
                output=output,
                deadline_at=deadline_at,
            ),
        )

    yield start
    deadline = time.monotonic() + WAIT_S
    while not (engine.is_refusing or is_idle(engine)):
        assert time.monotonic() < deadline, (engine.load(), engine.activity())
        time.sleep(0.01)


def is_idle(engine):
    return engine.load() == EngineLoad(0, 0, 0) and engine.activity()[0].busy_since is None


def test_a_request_draws_what_its_prompt_and_seed_say(run):
    np.testing.assert_array_equal(run(seed=3).pixels(), picture(PROMPT, 3))


def test_requests_keep_their_results_apart(run):
    jobs = [run(f"{seed}", seed=seed, step_s=0.005) for seed in range(12)]
    for seed, job in enumerate(jobs):
        np.testing.assert_array_equal(job.pixels(), picture(PROMPT, seed))


def test_steps_are_told_while_it_runs(run):
    job = run(step_s=0.05)
    assert job.next() == StepProgress(1, 4)
    job.pixels()


@pytest.mark.parametrize(
    ("fault", "fault_at", "kind", "words"),
    [
        ("value error", 0, InvalidArgumentError, ": ValueError: `guidance_scale` is too high"),
        ("value error", 1, InternalError, "ValueError: `guidance_scale` is too high"),
        ("assertion", 1, InternalError, "AssertionError"),
        ("out of memory", 1, ResourceExhaustedError, "the device's memory is full"),
    ],
)
def test_a_failed_forward_has_its_kind_and_the_next_one_runs(run, fault, fault_at, kind, words):
    error = run("bad", fault=fault, fault_at=fault_at).error()
    assert type(error) is kind
    assert words in str(error)
    np.testing.assert_array_equal(run("good", seed=1).pixels(), picture(PROMPT, 1))


def test_an_output_that_the_wire_does_not_carry_fails_its_request_alone(run):
    error = run("bad", fault="complex output", output="tensor").error()
    assert isinstance(error, InternalError)
    assert "output output_0 is complex64; the wire carries bool" in str(error)
    np.testing.assert_array_equal(run("good").pixels(), picture(PROMPT, 0))


def test_a_running_request_stops_at_its_next_step_when_aborted(run):
    """RUNTIME-RULE-3."""
    job = run(**ENDLESS).stepped()
    job.abort()
    assert isinstance(job.error(), CancelledError)


def test_a_waiting_request_ends_at_once_when_aborted(run):
    running, waiting = run("a", **ENDLESS).stepped(), run("b", height=16)
    waiting.abort()
    running.abort()
    assert isinstance(waiting.error(), CancelledError)
    assert isinstance(running.error(), CancelledError)


def test_an_aborted_id_can_be_used_again(run):
    """Both of a request that ran and of one that waited."""
    running, waiting = run("a", **ENDLESS).stepped(), run("b", height=16)
    for job in (waiting, running):
        job.abort()
        job.error()
    for request_id in ("a", "b"):
        np.testing.assert_array_equal(run(request_id, seed=2).pixels(), picture(PROMPT, 2))


def test_a_deadline_ends_a_request_that_runs(run):
    assert isinstance(run(deadline_s=0.3, **ENDLESS).error(), DeadlineExceededError)


def test_a_large_output_arrives_and_its_memory_is_used_again(run):
    for _ in range(5):
        output = run(output_mb=8, output="tensor").end().output
        assert sum(len(frame) for frame in output.data) == 8 << 20
        assert output.specs[0].shape == (8 << 20,)
        output.release()


def test_the_output_of_a_reader_that_left_is_given_back(run, engine):
    job = run(output_mb=8, output="tensor")
    job.stream.close()


def test_tensors_come_back_as_they_went(run):
    given = np.random.default_rng(0).random((3, 5), dtype=np.float32)
    job = run(
        inputs=[InputTensor(describe("latents", given), bytes(frame(given)))], output="latent"
    )
    output = job.end().output
    np.testing.assert_array_equal(array(output.specs[0], output.data[0]), given)
    output.release()


def test_the_metrics_tell_where_the_time_went(run):
    output = run(step_s=0.02).end().output
    assert output.metrics["forward_ms"] >= 80
    assert output.metrics["pack_ms"] >= 0
    output.release()


def test_workers_report(engine, run):
    (report,) = engine.collective_rpc("report", {}).result(timeout=WAIT_S)
    assert (report["rank"], report["device"]) == (0, "cpu")
    assert (report["pid"] == os.getpid()) == (engine.config.engine.executor == "uni")


def test_a_control_call_waits_for_the_forward_at_hand(engine, run):
    """RUNTIME-RULE-8."""
    job = run(step_s=0.05).stepped()
    values = engine.collective_rpc("report", {})
    job.pixels()
    assert values.result(timeout=WAIT_S)


def test_an_extension_adds_methods(engine):
    value = {"a": [1, 2.5, None, "text"]}
    assert engine.collective_rpc("echo", {"value": value}).result(timeout=WAIT_S) == [value]


def test_a_value_that_cannot_travel_costs_its_call_alone(engine, run):
    error = engine.collective_rpc("give_what_cannot_travel", {}).exception(timeout=WAIT_S)
    assert error is None or isinstance(error, InternalError)
    run().pixels()


@pytest.mark.parametrize("method", ["reboot", "_read", "__init__"])
def test_methods_that_are_not_offered_are_refused(engine, run, method):
    with pytest.raises(InternalError, match=f"method '{method}'; allowed: check_device"):
        engine.collective_rpc(method, {}).result(timeout=WAIT_S)
    run().pixels()


def test_a_busy_worker_is_seen_at_its_step(engine, run):
    job = run(**ENDLESS).stepped()
    deadline = time.monotonic() + WAIT_S
    while (activity := engine.activity()[0]).busy_since is None or not activity.step:
        assert time.monotonic() < deadline, activity  # between two steps
    assert (activity.rank, activity.device) == (0, "cpu:0")
    job.abort()
    job.error()


def test_a_living_engine_is_healthy_and_stays_so(engine, run):
    engine.check_health()
    run("bad", fault="assertion").error()
    engine.check_health()


def test_close_ends_what_runs_and_what_waits(engine, run):
    """The last test of each engine."""
    jobs = [run(f"{number}", **ENDLESS) for number in range(3)]
    jobs[0].stepped()
    start = time.monotonic()
    engine.close(grace_s=30)
    engine.close(grace_s=30)
    assert time.monotonic() - start < 20, "nobody had to be killed"
    assert {job.error().reason for job in jobs} == {"UNAVAILABLE"}
    with pytest.raises(EngineDeadError):
        engine.check_health()
