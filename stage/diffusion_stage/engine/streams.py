"""What the consumer of one request reads: its latest progress, chunks, then exactly one end."""

import threading
from collections.abc import Callable

from diffusion_stage.outputs import (
    ChunkReady,
    Completed,
    DiffusionOutput,
    Failed,
    StepProgress,
    StreamEvent,
)


class OutputStream:
    """Written by the engine's loop, read by one consumer of any thread.

    `notify` is called, without a lock, after each write; it must be quick and must not raise.
    Progress that the consumer has not read yet is replaced, so a slow consumer costs no memory;
    chunks wait for it.
    """

    def __init__(self, request_id: str, notify: Callable[["OutputStream"], None]) -> None:
        self.request_id = request_id
        self._notify = notify
        self._lock = threading.Lock()
        self._progress: StepProgress | None = None
        self._chunks: list[ChunkReady] = []
        self._chunk_count = 0
        self._end: Completed | Failed | None = None
        self._is_ended = False
        self._is_closed = False

    def put_progress(self, progress: StepProgress) -> None:
        with self._lock:
            self._progress = progress
        self._notify(self)

    def put_chunk(self, output: DiffusionOutput) -> None:
        """A part of the output; one that nobody reads any more is released at once."""
        with self._lock:
            is_wanted = not self._is_closed
            if is_wanted:
                self._chunks.append(ChunkReady(self._chunk_count, output))
                self._chunk_count += 1
        if is_wanted:
            self._notify(self)
        else:
            output.release()

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
            events: list[StreamEvent | None] = [self._progress, *self._chunks, self._end]
            self._progress = self._end = None
            self._chunks = []
        return [event for event in events if event is not None]

    def close(self) -> None:
        """The consumer leaves; it does not end the request."""
        with self._lock:
            self._is_closed = True
            chunks, self._chunks = self._chunks, []
            end, self._end = self._end, None
        for chunk in chunks:
            chunk.output.release()
        if isinstance(end, Completed):
            end.output.release()
