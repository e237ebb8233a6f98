"""Shared memory for outputs: anonymous files (`memfd_create(2)`) lent to the stage process.

They have no name, so nothing stays behind when a process is killed, and no mount (`/dev/shm`)
limits their size. A segment goes back and forth: the worker fills it, the stage process reads it
under a lease and releases it. Reuse matters: writing to fresh pages costs several times a copy.
"""

import mmap
import os
import threading
from dataclasses import dataclass

ALIGNMENT = 64
PAGE = 1 << 20
MAX_FREE_BYTES = 512 << 20


@dataclass(slots=True)
class Segment:
    """One anonymous file, mapped; `is_known` once its descriptor was sent."""

    segment_id: int
    descriptor: int
    memory: mmap.mmap
    is_known: bool = False


class SegmentPool:
    """The worker's side: segments in use and free ones, of which it keeps `MAX_FREE_BYTES`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lent: dict[int, Segment] = {}
        self._free: dict[int, Segment] = {}
        self._dropped: list[int] = []
        self._next_id = 0

    def lend(self, size_bytes: int) -> Segment:
        """A segment of at least that size. Raises `OSError` when there is no memory for it."""
        with self._lock:
            fitting = [
                s for s in self._free.values() if size_bytes <= len(s.memory) <= 4 * size_bytes
            ]
            segment = min(fitting, key=lambda s: len(s.memory), default=None)
            if segment is None:
                segment = self._make(size_bytes)
            self._free.pop(segment.segment_id, None)
            self._lent[segment.segment_id] = segment
            return segment

    def _make(self, size_bytes: int) -> Segment:
        rounded = -(-size_bytes // PAGE) * PAGE
        descriptor = os.memfd_create("diffusion-stage-output", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, rounded)
            memory = mmap.mmap(descriptor, rounded)
        except OSError:
            os.close(descriptor)
            raise
        self._next_id += 1
        return Segment(self._next_id, descriptor, memory)

    def take_back(self, segment_id: int) -> None:
        """The lease is over; what is free beyond the limit is closed, oldest first."""
        with self._lock:
            segment = self._lent.pop(segment_id)
            self._free[segment_id] = segment
            while sum(len(s.memory) for s in self._free.values()) > MAX_FREE_BYTES:
                oldest = self._free.pop(next(iter(self._free)))
                oldest.memory.close()
                os.close(oldest.descriptor)
                self._dropped.append(oldest.segment_id)

    def take_dropped(self) -> tuple[int, ...]:
        """Ids closed since the last call, for the other side to unmap."""
        with self._lock:
            dropped, self._dropped = tuple(self._dropped), []
            return dropped


class SegmentReader:
    """The stage process's side of one worker's segments, and the count of open leases."""

    def __init__(self) -> None:
        self._mapped: dict[int, mmap.mmap] = {}
        self._leases: set[int] = set()

    def add(self, segment_id: int, descriptor: int) -> None:
        """Map a new segment; closes the descriptor."""
        try:
            size = os.fstat(descriptor).st_size
            self._mapped[segment_id] = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def knows(self, segment_id: int) -> bool:
        return segment_id in self._mapped

    def open(self, segment_id: int) -> memoryview:
        self._leases.add(segment_id)
        return memoryview(self._mapped[segment_id])

    def release(self, segment_id: int) -> bool:
        """Ends a lease; False when it was over already."""
        if segment_id not in self._leases:
            return False
        self._leases.discard(segment_id)
        return True

    def drop(self, segment_ids: tuple[int, ...]) -> None:
        """Forget segments; the memory goes with the last view of it."""
        for segment_id in segment_ids:
            self._mapped.pop(segment_id, None)

    @property
    def open_leases(self) -> int:
        return len(self._leases)


def layout(sizes: list[int]) -> tuple[tuple[int, ...], int]:
    """Aligned offsets of arrays of these sizes, and the bytes that they take together."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return tuple(offsets), max(end, 1)
