"""P9: what the operator costs, beside the requests that nobody could do without."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.processes import ROOT
from benchmarks.result import Result, figure
from benchmarks.usage import cpu_s, only_child
from testcluster import Cluster, requirements

ROUNDS = 10
STAGES = 100
RESYNC_S = 10.0
START_S = 60.0


def run(blocks: int) -> list[Result]:
    """On a cluster without nodes: pods are made, and none runs. Nothing where there can be none."""
    if missing := requirements.missing():
        print(f"  no cluster here: {'; '.join(missing)}")
        return []
    with Cluster(nodes=0) as cluster:
        cluster.kubectl("apply", "-f", str(ROOT / "crds" / "diffusionstages.yaml"))
        crd = "crd/diffusionstages.diffusionstage.io"
        cluster.kubectl("wait", "--for=condition=Established", crd)
        return [*_apply(cluster, max(blocks, ROUNDS)), _resync(cluster, blocks)]


def _apply(cluster: Cluster, rounds: int) -> list[Result]:
    with _operator(cluster), _inside(cluster, "applied", rounds) as program:
        found = [_line(program) for _ in range(rounds)]
    request, direct, edited = (
        statistics.median(one[key] for one in found)
        for key in ("request_s", "direct_s", "edited_s")
    )
    baseline = f"its StatefulSet applied directly {direct:.3f} s"
    applied = figure(
        "P9.apply",
        f"from a new stage's watch event to its pod created ({request:.3f} s from the request)",
        [one["event_s"] for one in found],
        unit="s",
        baseline=baseline,
        limit=0.3,
    )
    repaired = figure(
        "P9.repair",
        f"from the deletion of a child to its successor ({edited:.3f} s from an edit to its end)",
        [one["deleted_s"] for one in found],
        unit="s",
        baseline=baseline,
        limit=1.0,
    )
    return [applied, repaired]


def _resync(cluster: Cluster, blocks: int) -> Result:
    with (
        _operator(cluster, DIFFUSION_OPERATOR_RESYNC_S=f"{RESYNC_S:g}") as pid,
        _inside(cluster, "crowd", STAGES) as program,
    ):
        for _ in ("made", "rendered", "reported"):
            _line(program)
        ours, bare = [], []
        for _ in range(blocks):
            before = cpu_s(pid)
            time.sleep(RESYNC_S)
            ours.append(cpu_s(pid) - before)
            bare.append(_asked(program))
    return figure(
        "P9.resync",
        f"core-seconds of the operator for one resync of {STAGES} settled stages",
        ours,
        unit="core-s",
        baseline=f"a bare client that reads the same {statistics.median(bare):.2f} core-s",
        limit=1.0,
    )


@contextmanager
def _operator(cluster: Cluster, **environment: str) -> Iterator[int]:
    """The operator's process id; it watches when this begins."""
    kopf = [sys.executable, "-m", "kopf", "run", "-A", "--standalone"]
    module = "--module=diffusion_operator.handlers"
    code = {"PYTHONPATH": str(ROOT / "operator")}
    with tempfile.TemporaryFile("w+") as log:
        process = cluster.popen(*kopf, module, env=code | environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_S
            while "Initial authentication has finished" not in _text(log.fileno()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the operator does not start:\n{_text(log.fileno())}")
                time.sleep(0.1)
            time.sleep(2)  # its first LISTs
            yield only_child(process.pid)
        finally:
            process.terminate()
            process.wait()


def _text(descriptor: int) -> str:
    with open(f"/proc/self/fd/{descriptor}") as file:  # noqa: PTH123  # another position in it
        return file.read()


@contextmanager
def _inside(cluster: Cluster, program: str, size: int) -> Iterator[subprocess.Popen[str]]:
    """`benchmarks.PROGRAM` inside the cluster; it is told the end by the end of its input."""
    command = [sys.executable, "-m", f"benchmarks.{program}", str(size)]
    pipe = subprocess.PIPE
    here = {"PYTHONPATH": str(ROOT)}
    with cluster.popen(*command, env=here, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.communicate()


def _line(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdout is not None
    found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def _asked(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    process.stdin.write("read\n")
    process.stdin.flush()
    return _line(process)["cpu_s"]
