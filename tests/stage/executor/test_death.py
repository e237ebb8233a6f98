"""Starts that fail, workers that die, and the end of all of them."""

import signal

import pytest

from diffusion_stage.errors import (
    DeviceMemoryError,
    EngineDeadError,
    EngineDiedError,
    InternalError,
    StartupTimeoutError,
    WorkerDiedError,
)
from diffusion_stage.executor import handle
from diffusion_stage.worker import messages as m
from tests.fakes.worker import FakeWorker


def test_each_worker_is_told_who_it_is(make_stage):
    stage = make_stage(num_gpus=2, model="/models/m", dtype="bfloat16", pipeline_class="a:B")
    stage.executor.start()
    for worker in stage.workers:
        worker.heard()
    specs = [worker.spec for worker in stage.workers]
    assert [(each.rank, each.world_size, each.device) for each in specs] == [
        (0, 2, "cpu"),
        (1, 2, "cpu"),
    ]
    assert {(each.model_uri, each.dtype, each.pipeline_class) for each in specs} == {
        ("/models/m", "bfloat16", "a:B")
    }
    assert len({each.store for each in specs}) == 1


def test_a_failed_start_carries_the_workers_own_reason(make_stage, monkeypatch):
    said = m.StartFailed(reason="DeviceOutOfMemory", message="it does not fit")
    monkeypatch.setattr(FakeWorker, "start", said)
    stage = make_stage(num_gpus=2)
    with pytest.raises(DeviceMemoryError, match="it does not fit") as failed:
        stage.executor.start()
    assert (failed.value.rank, failed.value.device) == (0, "cpu:0")
    with pytest.raises(EngineDeadError, match="it does not fit"):
        stage.executor.check_health()


def test_a_worker_killed_during_the_start_is_told_as_that(make_stage, monkeypatch):
    monkeypatch.setattr(FakeWorker, "start", None)
    stage = make_stage()
    launch = handle.subprocess.Popen

    def launch_and_die(*args, **kwargs):
        worker = launch(*args, **kwargs)
        worker.end(-9)
        return worker

    monkeypatch.setattr(handle.subprocess, "Popen", launch_and_die)
    with pytest.raises(WorkerDiedError, match=r"killed by SIGKILL, perhaps for want of memory"):
        stage.executor.start()


def test_a_start_that_takes_too_long_names_who_is_late(make_stage, monkeypatch):
    stage = make_stage(num_gpus=2, startup_timeout_s=0.05)
    monkeypatch.setattr(FakeWorker, "start", None)
    with pytest.raises(StartupTimeoutError, match=r"worker\(s\) 0 \(cpu:0\), 1 \(cpu:1\) not rea"):
        stage.executor.start()


def test_a_start_that_is_woken_goes_on(make_stage):
    stage = make_stage()
    stage.executor.wake()
    stage.executor.start()


@pytest.mark.parametrize(
    ("returncode", "kind", "signum", "words"),
    [
        (-9, WorkerDiedError, 9, "worker 1 (cpu:1) was killed by SIGKILL, perhaps for want of"),
        (-11, WorkerDiedError, 11, "worker 1 (cpu:1) was killed by SIGSEGV"),
        (-40, WorkerDiedError, 40, "worker 1 (cpu:1) was killed by signal 40"),
        (3, EngineDiedError, None, "worker 1 (cpu:1) ended with exit code 3"),
        (0, EngineDiedError, None, "worker 1 (cpu:1) ended with exit code 0"),
    ],
)
@pytest.mark.parametrize("is_busy", [True, False])
def test_a_death_is_noticed_and_told_as_what_it_was(
    stage, returncode, kind, signum, words, is_busy
):
    step = None
    if is_busy:
        stage.schedule("a", "b")
        (call,) = stage.workers[1].heard()
        stage.workers[1].say(m.StepDone(call_id=call.call_id, step=7, total_steps=20))
        stage.wait()
        step = 7
    stage.workers[1].end(returncode)
    with pytest.raises(kind) as died:
        stage.wait()
    assert words in str(died.value)
    assert (died.value.rank, died.value.device) == (1, "cpu:1")
    assert (died.value.signal, died.value.step) == (signum, step)
    with pytest.raises(EngineDeadError, match=r"worker 1 \(cpu:1\)"):
        stage.executor.check_health()


def test_a_worker_that_hangs_up_without_ending_is_ended(stage):
    stage.workers[0].hang_up()
    with pytest.raises(WorkerDiedError):
        stage.wait()
    assert stage.workers[0].signals == ["SIGKILL"]


@pytest.mark.parametrize(
    "send",
    [
        lambda stage: stage.schedule("b", "c"),
        lambda stage: stage.schedule(finished=["a"]),
        lambda stage: stage.executor.collective_rpc("report", {}),
    ],
    ids=["forward", "abort", "method"],
)
def test_what_is_sent_to_a_dead_worker_goes_nowhere_and_its_death_is_told(stage, send):
    stage.schedule("a")
    stage.workers[0].end(-signal.SIGKILL)
    send(stage)
    with pytest.raises(WorkerDiedError):
        stage.wait()
    with pytest.raises(EngineDeadError):
        stage.executor.check_health()


@pytest.fixture
def finished(stage):
    """Worker 0 has computed and packed request `a`, and nobody has heard of it."""
    stage.schedule("a")
    (call,) = stage.workers[0].heard()
    stage.workers[0].say(m.StepDone(call_id=call.call_id, step=1, total_steps=2))
    stage.workers[0].say(m.StepDone(call_id=call.call_id, step=2, total_steps=2))
    stage.workers[0].computed(call.call_id)
    stage.workers[0].packed(call.call_id)


def drawn_until_death(stage):
    """The requests whose outputs came before the death."""
    drawn = []
    while True:
        try:
            outputs = stage.executor.wait(5).outputs
        except WorkerDiedError:
            return drawn
        drawn += [each.request_id for each in outputs if each.result]


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("dead", [0, 1])
def test_what_was_said_before_a_death_is_heard(stage, dead):
    """Of the dead worker and of the others: an output that is whole is not drawn again."""
    stage.workers[dead].end(-signal.SIGKILL)
    assert drawn_until_death(stage) == ["a"]
    assert [each[1] for each in stage.progress] == [1, 2]


@pytest.mark.usefixtures("finished")
def test_sending_to_a_dead_worker_loses_nothing_that_it_said(stage):
    stage.workers[0].end(-signal.SIGKILL)
    stage.schedule("b", "c")
    assert drawn_until_death(stage) == ["a"]


@pytest.mark.usefixtures("finished")
def test_a_death_that_is_noticed_before_the_socket_closes_comes_after_what_was_said(stage):
    """The notice is first; the kernel closes a large process's sockets much later."""
    worker = stage.workers[0]
    worker.returncode = -signal.SIGKILL
    worker.let_go()
    stage.executor._handles[0]._watch.join()
    assert drawn_until_death(stage) == ["a"]


def test_workers_are_asked_to_stop_and_let_go(stage):
    assert all(worker.is_tied for worker in stage.workers)
    stage.executor.shutdown(grace_s=5)
    assert [worker.returncode for worker in stage.workers] == [0, 0]
    assert not any(worker.signals for worker in stage.workers)
    assert not any(worker.is_tied for worker in stage.workers)


def test_a_forward_at_hand_is_asked_to_end_first(stage):
    stage.schedule("a")
    call = stage.workers[0].heard()[0]
    stage.executor._handles[0].ask_to_stop()
    assert stage.workers[0].heard() == [m.AbortCall(call_id=call.call_id), m.Stop()]


def test_workers_that_do_not_stop_in_time_are_killed(stage):
    stage.workers[0].hang_up()
    stage.executor.shutdown(grace_s=0.01)
    assert stage.workers[0].signals == ["SIGKILL"]


def test_without_grace_nobody_is_asked(stage):
    stage.executor.shutdown(grace_s=0)
    assert [worker.signals for worker in stage.workers] == [["SIGKILL"], ["SIGKILL"]]


def test_shutdown_is_idempotent_and_says_so(stage):
    for _ in range(3):
        stage.executor.shutdown(grace_s=0)
    with pytest.raises(EngineDeadError, match="the executor is shut down"):
        stage.executor.check_health()


def test_calls_under_way_fail_at_shutdown(stage):
    values = stage.executor.collective_rpc("report", {})
    stage.executor.shutdown(grace_s=0)
    with pytest.raises(InternalError, match="shut down"):
        values.result(timeout=0)


def test_a_wake_after_shutdown_touches_no_descriptor(stage):
    stage.executor.shutdown(grace_s=0)
    stage.executor.wake()
