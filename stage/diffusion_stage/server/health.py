"""Which part of its life the stage is in, as its probes, its log and its last words tell it."""

import enum
import threading
import time

from diffusion_stage.errors import FatalError


class Phase(enum.StrEnum):
    """`serving` is the only phase that takes new requests."""

    STARTUP = "startup"
    SERVING = "serving"
    DRAINING = "draining"
    DEAD = "dead"


class Health:
    """Written by the main thread and the watchdog, read by the admin server."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may interrupt `enter` in its own thread
        self._phase = Phase.STARTUP
        self._death: FatalError | None = None
        self._started_at = time.monotonic()

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def death(self) -> FatalError | None:
        return self._death

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started_at

    def enter(self, phase: Phase) -> None:
        """Go on to a later phase; a dead stage stays dead, a draining one does not serve again."""
        order = list(Phase)
        with self._lock:
            if order.index(phase) > order.index(self._phase):
                self._phase = phase

    def die(self, error: FatalError) -> None:
        with self._lock:
            self._death = error
            self._phase = Phase.DEAD

    # What each probe answers: whether it is content, and why.

    def startup(self) -> tuple[bool, str]:
        return self._phase in (Phase.SERVING, Phase.DRAINING), self._words()

    def live(self) -> tuple[bool, str]:
        return self._phase is not Phase.DEAD, self._words()

    def ready(self) -> tuple[bool, str]:
        return self._phase is Phase.SERVING, self._words()

    def _words(self) -> str:
        death = self._death
        return str(self._phase) if death is None else f"{self._phase}: {death.reason}: {death}"
