"""The processes under measurement: a stage, and the plain program beside it."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[1]
ICONS_MODEL = ROOT / "models" / "icons-zimage-tiny"
START_LIMIT_S = 300.0
STOP_LIMIT_S = 20.0
POLL_S = 0.05


class Measured:
    """A child process, timed from before its start; ended with the `with` block.

    No hub, and the same number of OpenMP threads on both sides: one, or None for as many as there
    are cores. `is_asked`: it reads requests and writes answers.
    """

    def __init__(self, command: Sequence[str], *, is_asked: bool, threads: int | None = 1) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        environment = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
        inherited = {k: value for k, value in os.environ.items() if k != "OMP_NUM_THREADS"}
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        self.started_at = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if is_asked else subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_asked else self._log,
            stderr=self._log,
            text=True,
            env=inherited | environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self._log.close()

    def proportional_bytes(self) -> int:
        """The proportional set size (PSS) of the process and its descendants."""
        return sum(map(_pss, [self.process.pid, *_descendants(self.process.pid)]))

    def check_alive(self) -> None:
        """Raises `RuntimeError` with what the process wrote when it has ended."""
        if (code := self.process.poll()) is not None:
            self._log.seek(0)
            raise RuntimeError(f"ended with {code}:\n{self._log.read().decode()}")

    def write_line(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read_line(self) -> str:
        """The next line of a process that is asked. Raises as `check_alive`."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.check_alive()
        return line


class PlainPipeline(Measured):
    """`benchmarks.plain` with the icon model; `ready_s` is from its start to its model loaded."""

    program = "plain"

    def __init__(self) -> None:
        super().__init__(
            [sys.executable, "-m", f"benchmarks.{self.program}", str(ICONS_MODEL)], is_asked=True
        )
        self.read_line()
        self.ready_s = time.perf_counter() - self.started_at

    def generate(self, arguments: dict[str, Any]) -> tuple[float, str]:
        """Seconds of `pipe()` and the digest of the image."""
        self.write_line(json.dumps(arguments))
        reply = json.loads(self.read_line())
        return reply["seconds"], reply["digest"]


class InlineEngine(PlainPipeline):
    """The same through an engine in that process: `benchmarks.inline`."""

    program = "inline"


class FusedLoop(Measured):
    """`benchmarks.fused` with the icon model."""

    def __init__(self) -> None:
        super().__init__(
            [sys.executable, "-m", "benchmarks.fused", str(ICONS_MODEL)],
            is_asked=True,
            threads=None,
        )
        self.read_line()

    def run(self) -> float:
        """Seconds of all requests in one loop."""
        self.write_line("run")
        return float(json.loads(self.read_line())["seconds"])


class StageProcess(Measured):
    """`diffusion-stage serve` with one worker on the CPU; `ready_s` is from its start to ready."""

    def __init__(self, model: Path, *options: str, threads: int | None = 1) -> None:
        self.address = f"tcp://127.0.0.1:{(port := _free_port())}"
        self._admin_port = _free_port()
        super().__init__(
            [
                str(Path(sys.executable).with_name("diffusion-stage")),
                *("serve", "--model", str(model), "--device", "cpu", "--num-gpus", "1"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--admin-port", str(self._admin_port), "--termination-log", os.devnull),
                *options,
            ],
            is_asked=False,
            threads=threads,
        )
        self._wait_until_ready()
        self.ready_s = time.perf_counter() - self.started_at

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._is_ready():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready in {START_LIMIT_S:.0f} s")
            time.sleep(POLL_S)

    def _is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self._admin_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=POLL_S * 10) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has no Pss")


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return children + [each for child in children for each in _descendants(child)]
