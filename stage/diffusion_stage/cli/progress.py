"""How far a set of requests has come, for a person who waits."""

import time
from collections.abc import Callable
from typing import TextIO

BAR_LENGTH = 24
REDRAW_EVERY_S = 0.05
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """The share of all steps that are done, redrawn; off a terminal only what `say` says."""

    def __init__(
        self, total: int, stream: TextIO, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shares = [0.0] * total
        self._done = 0
        self._stream = stream
        self._is_live = stream.isatty()
        self._clock = clock
        self._started_at = clock()
        self._drawn_at = float("-inf")

    def advance(self, index: int, step: int, total_steps: int) -> None:
        """A request is at `step`; a retry may set it back."""
        self._shares[index] = step / max(total_steps, 1)
        if self._clock() - self._drawn_at >= REDRAW_EVERY_S:
            self._draw()

    def finish(self, index: int, text: str) -> None:
        """A request has ended, well or not; `text` stays on the screen."""
        self._done += 1
        self._shares[index] = 1.0
        self.say(f"[{self._done}/{len(self._shares)}] {text}")

    def say(self, text: str) -> None:
        self._stream.write(f"{_CLEAR if self._is_live else ''}{text}\n")
        if self._done < len(self._shares):
            self._draw()
        self._stream.flush()

    def _draw(self) -> None:
        if not self._is_live:
            return
        self._drawn_at = self._clock()
        share = sum(self._shares) / len(self._shares)
        filled = round(share * BAR_LENGTH)
        bar = "█" * filled + "░" * (BAR_LENGTH - filled)
        seconds = self._drawn_at - self._started_at
        counts = f"{self._done}/{len(self._shares)} done"
        self._stream.write(f"{_CLEAR}{bar} {share:4.0%}  {counts}  {seconds:.1f} s")
        self._stream.flush()
