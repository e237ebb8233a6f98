"""A level-triggered work queue: keys in, one pass per key at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from diffusion_operator.errors import ApiError

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 120.0

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """A stage to look at."""

    namespace: str
    name: str


Reconcile = Callable[[Key], Awaitable[float | None]]


class Tally(Protocol):
    """Is told of each pass."""

    def count_pass(self, seconds: float, *, has_failed: bool) -> None: ...


class WorkQueue:
    """Calls `reconcile(key)` for each key added, and again after the seconds that it returns.

    Adding a key that waits already is free; a key added while it runs runs once more. A pass that
    raises is tried again, each time after twice as long. `None` forgets the key.
    """

    def __init__(self, reconcile: Reconcile, *, workers: int, tally: Tally) -> None:
        self._reconcile = reconcile
        self._tally = tally
        self._workers = workers
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._due: dict[Key, float] = {}  # added and not yet started, since when
        self._running: dict[Key, float] = {}  # since when
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Have `key` looked at soon. To be called in the queue's own loop."""
        if key in self._due:
            return
        self._due[key] = _now()
        if key not in self._running:
            self._ready.put_nowait(key)

    def lag_s(self) -> float:
        """The age of the oldest pass that is due or runs; 0 when there is none."""
        return max((_now() - since for since in self._since()), default=0.0)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def _since(self) -> list[float]:
        return [*self._due.values(), *self._running.values()]

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            del self._due[key]
            self._running[key] = _now()
            delay_s = await self._attempt(key)
            seconds = _now() - self._running.pop(key)
            self._tally.count_pass(seconds, has_failed=key in self._failures)
            if key in self._due:
                self._ready.put_nowait(key)
            elif delay_s is not None:
                self._timers[key] = asyncio.get_running_loop().call_later(delay_s, self.add, key)

    async def _attempt(self, key: Key) -> float | None:
        try:
            delay_s = await self._reconcile(key)
        except ApiError as error:
            delay_s = self._back_off(key)
            logger.warning("%s/%s: %s; next try in %.0f s", *key, error, delay_s)
        except Exception:
            delay_s = self._back_off(key)
            logger.exception("%s/%s: the pass failed; next try in %.0f s", *key, delay_s)
        else:
            self._failures.pop(key, None)
        return delay_s

    def _back_off(self, key: Key) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 10), LAST_RETRY_S)


def _now() -> float:
    return asyncio.get_running_loop().time()
