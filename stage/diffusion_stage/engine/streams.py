"""What the consumer of one request reads: its latest progress, then exactly one end."""

import threading
from collections.abc import Callable

from diffusion_stage.outputs import Completed, Failed, StepProgress, StreamEvent


class OutputStream:
    """Written by the engine's loop, read by one consumer of any thread.

    `notify` is called, without a lock, after each write; it must be quick and must not raise.
    Progress that the consumer has not read yet is replaced, so a slow consumer costs no memory.
    """

    def __init__(self, request_id: str, notify: Callable[["OutputStream"], None]) -> None:
        self.request_id = request_id
        self._notify = notify
        self._lock = threading.Lock()
        self._progress: StepProgress | None = None
        self._end: Completed | Failed | None = None
        self._is_ended = False
        self._is_closed = False

    def put_progress(self, progress: StepProgress) -> None:
        with self._lock:
            self._progress = progress
        self._notify(self)

    def put_end(self, end: Completed | Failed) -> None:
        """The terminal event. An output that nobody reads any more is released at once."""
        with self._lock:
            assert not self._is_ended, f"request {self.request_id} ended twice"
            self._is_ended = True
            is_wanted = not self._is_closed
            if is_wanted:
                self._end = end
        if is_wanted:
            self._notify(self)
        elif isinstance(end, Completed):
            end.output.release()

    def take(self) -> list[StreamEvent]:
        """What was written since the last call, in order."""
        with self._lock:
            events: list[StreamEvent] = [e for e in (self._progress, self._end) if e is not None]
            self._progress = self._end = None
        return events

    def close(self) -> None:
        """The consumer leaves; it does not end the request."""
        with self._lock:
            self._is_closed = True
            end, self._end = self._end, None
        if isinstance(end, Completed):
            end.output.release()
