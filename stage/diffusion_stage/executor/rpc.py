"""A method call on all workers, answered when every rank has answered."""

from concurrent.futures import Future
from typing import Any

from diffusion_stage.errors import InternalError
from diffusion_stage.worker.messages import MethodDone


class CollectiveCall:
    """Collects one answer per rank; any rank's error fails the call, naming each that failed."""

    def __init__(self, method: str, world_size: int) -> None:
        self.future: Future[list[Any]] = Future()
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
        elif self.future.set_running_or_notify_cancel():
            self.future.set_result([self._answers[r].value for r in range(self._world_size)])
        return True

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)
