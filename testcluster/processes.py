"""The parts of the cluster as child processes of its first process."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from testcluster.errors import StartError

LOG_TAIL_LINES = 5
POLL_S = 0.1


class Processes:
    """Owns one process and one log file per part. They end with the pid namespace."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str]) -> None:
        with (self._logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def stop(self, name: str, *, timeout_s: float = 10.0) -> None:
        process = self._running.pop(name)
        process.terminate()
        process.wait(timeout_s)

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, timeout_s: float = 60.0
    ) -> None:
        """Poll `condition`. Raises StartError when time is up or a part has ended."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise self._ended(name, process.returncode)
            if time.monotonic() > deadline:
                raise StartError(f"{what}: not within {timeout_s:g} s; logs in {self._logs}")
            time.sleep(POLL_S)

    def reap_until_one_ends(self) -> StartError:
        """Be the init process that orphans expect; return why when a part ends."""
        names = {process.pid: name for name, process in self._running.items()}
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid in names:
                return self._ended(names[pid], os.waitstatus_to_exitcode(status))

    def _ended(self, name: str, code: int) -> StartError:
        log = self._logs / f"{name}.log"
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
        return StartError(f"{name} ended with {code}; the end of {log}:\n{tail}")
