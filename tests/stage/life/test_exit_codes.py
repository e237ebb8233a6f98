"""Each row of the table of ends: exit code, and last words that say the same."""

import signal
import socket

import pytest

from tests.stage.pids import wait_gone
from tests.stage.process import FAKE, free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

REASONS = {
    64: "ConfigInvalid",
    66: "ModelUnavailable",
    69: "AcceleratorUnusable",
    70: "EngineDied",
    71: "WorkerDied",
    72: "DeviceOutOfMemory",
    73: "Hang",
    75: "StartupTimeout",
}
ON_RANK_0 = {"rank": 0, "device": "cpu:0"}
NOWHERE = {"rank": None, "device": None}


def ends_with(stage, exit_code, words, *, phase="startup", signum=None, where=ON_RANK_0):
    """Waits for the end and checks it; gives the last words."""
    assert stage.end(timeout_s=240) == exit_code, stage.log
    said = stage.last_words
    expected = {
        "v": 1,
        "reason": REASONS[exit_code],
        "exitCode": exit_code,
        "phase": phase,
        "signal": signum,
        **where,
    }
    assert {key: said[key] for key in expected} == expected
    assert words in said["msg"]
    return said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"max_queue": 0}, "--max-queue '0': Input should be greater than or equal to 1"),
        ({"bogus": True}, "--bogus"),
        ({"tensor_parallel_size": 2}, "--tensor-parallel-size 2"),
        ({"executor": "uni", "num_gpus": 2}, "--executor uni with --num-gpus 2"),
    ],
)
def test_64_wrong_flags(serve, flags, words):
    ends_with(serve(**flags), 64, words, where=NOWHERE)


@pytest.mark.parametrize(
    ("flag", "path", "words"),
    [
        ("pipeline_class", "no.such.module:Class", "class 'no.such.module:Class'"),
        ("worker_extension", f"{FAKE}:Conflict", f"{FAKE}:Conflict redefines report"),
    ],
)
def test_64_code_of_ones_own_that_cannot_be_used(serve, flag, path, words):
    ends_with(serve(None, **{flag: path}), 64, words)


@pytest.mark.parametrize("which", ["port", "admin_port"])
def test_64_a_port_that_is_taken(serve, which):
    with socket.create_server(("127.0.0.1", free_port())) as owner:
        port = owner.getsockname()[1]
        flag = f"--{which.replace('_', '-')} {port} on 127.0.0.1"
        ends_with(serve(**{which: port}), 64, flag, where=NOWHERE)


def test_66_no_such_folder(serve, tmp_path):
    missing = tmp_path / "missing"
    said = ends_with(serve(model=missing), 66, str(missing), where=NOWHERE)
    assert f"looked for {missing}/model_index.json" in said["msg"]


def test_66_a_folder_that_is_no_pipeline(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    ends_with(serve(model=tmp_path / "empty"), 66, "not a pipeline", where=NOWHERE)


def test_66_a_model_that_cannot_be_read(serve):
    ends_with(serve("Unreadable"), 66, "no file named model.safetensors")


def test_69_an_accelerator_that_is_not_there(serve):
    stage = serve(device="cuda", env={"CUDA_VISIBLE_DEVICES": ""})
    ends_with(stage, 69, "device cuda", where={"rank": 0, "device": "cuda:0"})


def test_70_an_exception_in_the_first_forward(serve):
    stage = serve("FailsWarmUp")
    ends_with(stage, 70, "warm-up: InternalError: AssertionError", where=NOWHERE)


def test_70_a_worker_that_ends_by_itself(serve):
    ends_with(serve("ExitsAtLoad"), 70, "worker 0 (cpu:0) ended with exit code 3")


def test_71_a_worker_killed_while_it_loads(serve):
    stage = serve("DiesAtLoad")
    ends_with(stage, 71, "killed by SIGKILL, perhaps for want of memory", signum=9)


def test_71_a_worker_that_crashes_in_a_forward(serve):
    stage = serve(no_warmup=True).wait_ready()
    with stage.client() as client:
        client.accepted("a", fault="crash", fault_at=2)
        assert client.end_of("a").reason == "ENGINE_DEAD"
    said = ends_with(stage, 71, "SIGSEGV", phase="serving", signum=signal.SIGSEGV)
    assert (said["step"], said["inflight"]) == (2, 1)


def test_72_a_model_that_does_not_fit(serve):
    ends_with(serve("TooLarge"), 72, "does not fit on cpu: tried to allocate 80 GiB")


def test_72_one_of_two_workers_that_does_not_fit(serve):
    """RUNTIME-RULE-9. Its reason is told, not that of the others that are ended with it."""
    stage = serve("OneRankDoesNotFit", num_gpus=2)
    ends_with(stage, 72, "tried to allocate 80 GiB", where={"rank": 1, "device": "cpu:1"})


@pytest.mark.parametrize(
    ("executor", "fault"), [("mp", "sleep"), ("mp", "hold the GIL"), ("uni", "sleep")]
)
def test_73_a_forward_that_makes_no_step(serve, executor, fault):
    stage = serve(executor=executor, hang_timeout_s=4, no_warmup=True).wait_ready()
    with stage.client() as client:
        client.accepted("a", fault=fault, fault_at=2)
        error = client.end_of("a", timeout_s=30)
    assert (error.reason, error.retryable) == ("ENGINE_DEAD", True)
    said = ends_with(stage, 73, "worker 0 (cpu:0) made no step for", phase="serving")
    assert said["step"] == 2


@pytest.mark.parametrize("executor", ["mp", "uni"])
def test_75_a_model_that_never_loads(serve, executor):
    stage = serve("NeverLoads", executor=executor, startup_timeout_s=3)
    where = ON_RANK_0 if executor == "mp" else NOWHERE
    ends_with(stage, 75, "not ready", where=where)


def test_75_a_warm_up_that_never_ends(serve):
    stage = serve("HangsInWarmUp", startup_timeout_s=15)
    assert stage.end(timeout_s=60) == 75, stage.log
    assert stage.last_words["reason"] == "StartupTimeout"


@pytest.mark.parametrize("executor", ["mp", "uni"])
def test_0_a_stage_that_is_terminated_while_it_loads(serve, executor):
    stage = serve("NeverLoads", executor=executor)
    stage.wait(lambda: stage.get("/livez")[0] == 200, 60, "alive")
    workers = stage.wait(stage.children, 60, "a parent") if executor == "mp" else []
    stage.kill(signal.SIGTERM)
    stage.kill(signal.SIGTERM)
    assert stage.end() == 0, stage.log
    assert wait_gone(workers, timeout_s=5.0) == []
    assert stage.last_words is None
    assert "Traceback" not in stage.log
