"""Each row of the table of ends: exit code, and last words that say the same."""

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.stage.pids import wait_gone
from tests.stage.process import FAKE, free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

END_S = 240
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


def check_end(stage, exit_code, words, *, phase="startup", signum=None, where=ON_RANK_0):
    """Waits for the end and checks it; gives the last words."""
    assert stage.end(timeout_s=END_S) == exit_code, stage.log
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


@dataclass(frozen=True)
class Start:
    """A start that fails, and how."""

    exit_code: int
    words: str
    kind: str = "Pipeline"
    flags: dict = field(default_factory=dict)
    where: dict = field(default_factory=lambda: ON_RANK_0)
    signum: int | None = None


STARTS = {
    "64 a value out of range": Start(
        64, "--max-queue '0': Input should be greater", flags={"max_queue": 0}, where=NOWHERE
    ),
    "64 an unknown flag": Start(64, "--bogus", flags={"bogus": True}, where=NOWHERE),
    "64 what this version cannot do": Start(
        64, "--tensor-parallel-size 2", flags={"tensor_parallel_size": 2}, where=NOWHERE
    ),
    "64 flags that contradict each other": Start(
        64, "--executor uni with", flags={"executor": "uni", "num_gpus": 2}, where=NOWHERE
    ),
    "64 a secret key without a list of clients": Start(
        64,
        "--curve-secret-key-file /keys/secret-key with --curve-clients-file None; allowed: both",
        flags={"curve_secret_key_file": "/keys/secret-key"},
        where=NOWHERE,
    ),
    "64 a secret key that is not there": Start(
        64,
        "--curve-secret-key-file /keys/secret-key: No such file",
        flags={"curve_secret_key_file": "/keys/secret-key", "curve_clients_file": __file__},
        where=NOWHERE,
    ),
    "64 a class that cannot be imported": Start(
        64, "class 'no.such.module:Class'", flags={"pipeline_class": "no.such.module:Class"}
    ),
    "64 an extension in the way": Start(
        64, "Conflict redefines report", flags={"worker_extension": f"{FAKE}:Conflict"}
    ),
    "66 a model that cannot be read": Start(66, "no file named model.safe", kind="Unreadable"),
    "69 an accelerator that is not there": Start(
        69,
        "device cuda",
        flags={"device": "cuda", "env": {"CUDA_VISIBLE_DEVICES": ""}},
        where={"rank": 0, "device": "cuda:0"},
    ),
    "70 an exception in the first forward": Start(
        70, "warm-up: InternalError: AssertionError", kind="FailsWarmUp", where=NOWHERE
    ),
    "70 a worker that ends by itself": Start(
        70, "worker 0 (cpu:0) ended with exit code 3", kind="ExitsAtLoad"
    ),
    "71 a worker killed while it loads": Start(
        71, "killed by SIGKILL, perhaps for want of memory", kind="DiesAtLoad", signum=9
    ),
    "72 a model too large for one of two": Start(
        72,
        "tried to allocate 80 GiB",
        kind="OneRankDoesNotFit",
        flags={"num_gpus": 2},
        where={"rank": 1, "device": "cpu:1"},
    ),
    "75 a model that never loads": Start(
        75, "worker(s) 0 (cpu:0) not ready", kind="NeverLoads", flags={"startup_timeout_s": 1}
    ),
    "75 so in one process": Start(
        75,
        "not ready after",
        kind="NeverLoads",
        flags={"startup_timeout_s": 1, "executor": "uni"},
        where=NOWHERE,
    ),
}


@pytest.fixture(scope="module")
def ended(serve_module):
    """The stages of all failed starts, by name; they run two at a time, as there are cores."""

    def run(start):
        stage = serve_module(start.kind, **start.flags)
        stage.end(timeout_s=END_S)
        return stage

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(STARTS, pool.map(run, STARTS.values()), strict=True))


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_fails_says_why(ended, name):
    """RUNTIME-RULE-9. No process stays, also of the workers that could have served."""
    start = STARTS[name]
    check_end(ended[name], start.exit_code, start.words, where=start.where, signum=start.signum)


@pytest.mark.parametrize("which", ["port", "admin_port"])
def test_64_a_port_that_is_taken(serve, which):
    with socket.create_server(("127.0.0.1", free_port())) as owner:
        port = owner.getsockname()[1]
        flag = f"--{which.replace('_', '-')} {port} on 127.0.0.1"
        check_end(serve(**{which: port}), 64, flag, where=NOWHERE)


def test_66_no_such_folder(serve, tmp_path):
    missing = tmp_path / "missing"
    said = check_end(serve(model=missing), 66, str(missing), where=NOWHERE)
    assert f"looked for {missing}/model_index.json" in said["msg"]


def test_66_a_folder_that_is_no_pipeline(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    check_end(serve(model=tmp_path / "empty"), 66, "not a pipeline", where=NOWHERE)


def test_71_a_worker_that_crashes_in_a_forward(serve):
    stage = serve(no_warmup=True).wait_ready()
    with stage.client() as client:
        client.accepted("a", fault="crash", fault_at=2)
        assert client.end_of("a").reason == "ENGINE_DEAD"
    said = check_end(stage, 71, "SIGSEGV", phase="serving", signum=signal.SIGSEGV)
    assert (said["step"], said["inflight"]) == (2, 1)


@pytest.mark.parametrize(
    ("executor", "fault"), [("mp", "sleep"), ("mp", "hold the GIL"), ("uni", "sleep")]
)
def test_73_a_forward_that_makes_no_step(serve, executor, fault):
    stage = serve(executor=executor, hang_timeout_s=3, no_warmup=True).wait_ready()
    with stage.client() as client:
        client.accepted("a", fault=fault, fault_at=2)
        error = client.end_of("a", timeout_s=30)
    assert (error.reason, error.retryable) == ("ENGINE_DEAD", True)
    said = check_end(stage, 73, "worker 0 (cpu:0) made no step for", phase="serving")
    assert said["step"] == 2


def test_75_a_warm_up_that_never_ends(serve):
    stage = serve("HangsInWarmUp", startup_timeout_s=10)
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
