"""A worker's death, brought about in mid-generation, and timed until the status tells of it."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from demo.paint import Answers
from demo.target import Target

STATUS_TIMEOUT_S = 60.0


class Kill:
    """Kills one worker as soon as all are at work. `at` is in seconds since the epoch."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._seen: Future[tuple[dict[str, Any], float]] | None = None
        self.replica = ""
        self.worker: dict[str, Any] = {}
        self.at = 0.0

    def strike_when_busy(self, answers: Answers) -> None:
        """Called after each event; every request has made a step once each worker has one."""
        if self._seen is None and len(answers.steps) == sum(map(len, answers.workers.values())):
            self.replica, workers = min(answers.workers.items())
            self.worker = workers[-1]
            kill = f"import os, time; at = time.time(); os.kill({self.worker['pid']}, 9); print(at)"
            command = ("exec", self.replica, "-c", "stage", "--", "python", "-c", kill)
            self.at = float(self._target.kubectl(*command))
            self._seen = self._pool.submit(self._await_failure)

    def failure(self) -> tuple[dict[str, Any], float]:
        """The status's `lastFailure`, and the seconds from the kill until it was there."""
        if self._seen is None:
            raise RuntimeError("the requests were done before every worker was at work")
        self._pool.shutdown()
        return self._seen.result()

    def _await_failure(self) -> tuple[dict[str, Any], float]:
        deadline = time.monotonic() + STATUS_TIMEOUT_S
        while time.monotonic() < deadline:
            status = self._target.get("dstage", "icons")["status"]
            if "lastFailure" in status:
                return status["lastFailure"], time.time() - self.at
            time.sleep(0.2)
        raise RuntimeError(f"no failure in the status after {STATUS_TIMEOUT_S} s")
