"""The baseline of a transfer: one copy of the same size between pages that are there already."""

import math
import time
from typing import Final

import numpy as np

SHAPE: Final = (1, 81, 480, 832, 3)  # a video of 81 frames, as common models make them
SIZE_BYTES: Final = math.prod(SHAPE)  # 97 MB
PAGE_BYTES: Final = 4096


class Memcpy:
    """Owns a source and a target of `SIZE_BYTES`."""

    def __init__(self) -> None:
        self._source = np.random.default_rng(0).integers(0, 256, SIZE_BYTES, dtype=np.uint8)
        self._target = np.zeros_like(self._source)

    def measure(self) -> float:
        """Seconds of the copy, and of a look at each page of it."""
        start = time.perf_counter()
        np.copyto(self._target, self._source)
        touch(self._target)
        return time.perf_counter() - start


def touch(data: "memoryview | np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> int:
    """Reads a byte of each page, so that a mapping not yet filled in costs what it costs."""
    return int(np.frombuffer(data, np.uint8)[::PAGE_BYTES].sum())
