"""Ends a stage that is late at its start, or that hangs."""

import threading
import time
from collections.abc import Callable, Iterable

from diffusion_stage.errors import FatalError, HangError, StartupTimeoutError
from diffusion_stage.executor.executor import RankActivity

GRACE_S = 5.0  # the loop's own pulse and the watchdog's are seconds; a hang is not judged by them


def find_hang(
    ranks: Iterable[RankActivity], *, ticked_at: float, limit_s: float, now: float
) -> HangError | None:
    """The hang to report, if any; times are monotonic seconds.

    A busy worker must make steps, however often it answers; an idle one must answer; and while no
    worker is busy the engine's loop must turn.
    """
    is_busy = False
    for rank in ranks:
        silent_for = now - (rank.heard_at if rank.busy_since is None else rank.progress_at)
        is_busy |= rank.busy_since is not None
        if silent_for > limit_s:
            what = "gave no sign of life" if rank.busy_since is None else "made no step"
            return HangError(
                f"worker {rank.rank} ({rank.device}) {what} for {silent_for:.1f} s; "
                f"the limit is {limit_s:.0f} s",
                rank=rank.rank,
                device=rank.device,
                step=rank.step,
            )
    if not is_busy and now - ticked_at > limit_s + GRACE_S:
        return HangError(f"the engine's loop stood still for {now - ticked_at:.1f} s")
    return None


def find_late_start(uptime_s: float, limit_s: float) -> StartupTimeoutError | None:
    """A start that is over its time, whatever it is at: loading, or the warm-up.

    An executor that waits for its workers knows which is late, so it has the first word.
    """
    if uptime_s <= limit_s + GRACE_S:
        return None
    return StartupTimeoutError(f"not ready after {uptime_s:.1f} s; the limit is {limit_s:.0f} s")


class Watchdog:
    """Looks twice a second, and calls `on_trouble` once, in its own thread."""

    PERIOD_S = 0.5

    def __init__(
        self, look: Callable[[float], FatalError | None], on_trouble: Callable[[FatalError], None]
    ) -> None:
        self._look = look
        self._on_trouble = on_trouble
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped.wait(self.PERIOD_S):
            trouble = self._look(time.monotonic())
            if trouble is not None:
                self._on_trouble(trouble)
                return
