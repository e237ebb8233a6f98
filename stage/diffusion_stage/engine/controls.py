"""Control calls on their way from any thread to the engine's loop."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from diffusion_stage.errors import EngineDeadError

Values = Future[list[Any]]
Start = Callable[[str, dict[str, Any], float | None], Values]


@dataclass(frozen=True, slots=True)
class ControlCall:
    """A worker method to call, and the future that its caller waits for."""

    method: str
    args: dict[str, Any]
    timeout_s: float | None = None
    future: Values = field(default_factory=Future)

    def start(self, start: Start) -> None:
        """Begin the call; the caller's future ends as that of `start` does."""
        start(self.method, self.args, self.timeout_s).add_done_callback(self._copy)

    def _copy(self, done: Values) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(done.result())


class ControlCalls:
    """The calls that the loop has not begun; once closed, none begins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[ControlCall] = []
        self._is_closed = False

    def add(self, method: str, args: dict[str, Any], timeout_s: float | None = None) -> Values:
        """The future fails with `EngineDeadError` if these calls are closed before it begins."""
        call = ControlCall(method, args, timeout_s)
        with self._lock:
            self._waiting.append(call)
            is_closed = self._is_closed
        if is_closed:
            self.close()
        return call.future

    def take(self) -> list[ControlCall]:
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._is_closed = True
        for call in self.take():
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(EngineDeadError("the engine has ended"))
