"""A method call on all workers, answered when every rank has answered."""

import math
import time
from concurrent.futures import Future
from typing import Any

from diffusion_stage.errors import DeadlineExceededError, InternalError
from diffusion_stage.worker.messages import MethodDone


class CollectiveCall:
    """Collects one answer per rank; any rank's error fails the call, naming each that failed.

    After `timeout_s` its future fails; answers are still taken, so that none is read as another's.
    """

    def __init__(self, method: str, world_size: int, timeout_s: float | None = None) -> None:
        self.future: Future[list[Any]] = Future()
        self._timeout_s = timeout_s
        self._started_at = time.monotonic()
        self._method = method
        self._world_size = world_size
        self._answers: dict[int, MethodDone] = {}

    def answer(self, rank: int, reply: MethodDone) -> bool:
        """Take one rank's answer; returns whether all have come."""
        self._answers[rank] = reply
        if len(self._answers) < self._world_size:
            return False
        errors = [a.error for a in self._answers.values() if a.error is not None]
        if errors:
            self.fail(InternalError(f"{self._method}: {'; '.join(errors)}"))
        elif not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_result([self._answers[r].value for r in range(self._world_size)])
        return True

    @property
    def left_s(self) -> float:
        """Until the time is up; for ever where it is, or where there is no limit."""
        if self._timeout_s is None or self.future.done():
            return math.inf
        return max(0.0, self._started_at + self._timeout_s - time.monotonic())

    def check_time(self) -> None:
        if self.left_s <= 0:
            missing = sorted(set(range(self._world_size)) - self._answers.keys())
            ranks = ", ".join(map(str, missing))
            self.fail(
                DeadlineExceededError(
                    f"{self._method}: no answer of rank {ranks} in {self._timeout_s:g} s"
                )
            )

    def fail(self, error: Exception) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
