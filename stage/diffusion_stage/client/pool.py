"""The replicas of a client: who is there, and who gets the next request."""

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import NoReturn

import zmq.asyncio

from diffusion_stage.client.discovery import Discovery
from diffusion_stage.client.keys import CurveKeys
from diffusion_stage.client.replica import Replica
from diffusion_stage.errors import UnavailableError

TERM_TIMEOUT_S = 10.0  # sockets linger for a second; a starved process takes longer
RETRY_DISCOVERY_S = 1.0
PATIENCE_S = 120.0  # with replicas that took us before: mounted keys are renewed within this

logger = logging.getLogger(__name__)


class Pool:
    """Owns the ZMQ context, the replicas and the discovery task, from `start` to `close`."""

    def __init__(
        self,
        discovery: Discovery,
        *,
        client_name: str,
        refresh_s: float,
        curve: CurveKeys | None = None,
    ) -> None:
        self.replicas: dict[str, Replica] = {}
        self._discovery = discovery
        self._client_name = client_name
        self._refresh_s = refresh_s
        self._curve = curve
        self._context = zmq.asyncio.Context()
        self._changed = asyncio.Event()
        self._turns = 0
        self._last_turn: dict[str, int] = {}
        self._has_met_one = False
        self._refused_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        if self._task is None and not self._is_closed:
            self._task = asyncio.create_task(self._follow(), name="stage discovery")

    async def close(self) -> None:
        """Whoever waits for a replica gets `UnavailableError`; requests under way do too."""
        self._is_closed = True
        self._notify()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.gather(*(each.close() for each in self.replicas.values()))
        self.replicas.clear()
        # Waits for unsent messages, as long as the sockets linger. All answers are here already.
        try:
            await asyncio.wait_for(asyncio.to_thread(self._context.term), TERM_TIMEOUT_S)
        except TimeoutError:
            logger.warning("last messages are still unsent after %.0f s", TERM_TIMEOUT_S)

    async def choose(
        self, *, not_before: Mapping[str, float], until: float, meet_until: float
    ) -> Replica:
        """A ready replica with the fewest requests under way, as soon as there is one.

        `not_before` names times before which an address is left alone. Raises `UnavailableError`
        at `until`, or at `meet_until` when no replica ever said Hello. When all refuse us it raises
        what they say: at once if none ever said Hello, else after `PATIENCE_S`.
        """
        loop = asyncio.get_running_loop()
        while True:
            changed, now = self._changed, loop.time()
            ready = [each for each in self.replicas.values() if self._takes_requests(each)]
            free = [r for r in ready if not_before.get(r.session.address, now) <= now]
            if free:
                return self._take(free)
            self._raise_if_closed()
            bear_until = self._bear_until()
            if now >= bear_until:
                self._raise_refusal()
            limit = until if self._has_met_one else min(until, meet_until)
            if now >= limit:
                raise UnavailableError(f"no stage takes requests: {self.describe()}")
            ends = [not_before[r.session.address] for r in ready]
            await self._wait(changed, min([limit, bear_until, *ends]) - now)

    async def settle(self, until: float) -> None:
        """Waits until every replica has said Hello, or `until`."""
        loop = asyncio.get_running_loop()
        while True:
            changed, now = self._changed, loop.time()
            sessions = [each.session for each in self.replicas.values()]
            self._raise_if_closed()
            if (sessions and all(each.stage is not None for each in sessions)) or now >= until:
                return
            await self._wait(changed, until - now)

    def describe(self) -> str:
        """Each replica and what is wrong with it, in words."""
        found = [_describe(each) for each in self.replicas.values()]
        return "; ".join([*self._discovery.problems, *found]) or "no address was found"

    def _raise_if_closed(self) -> None:
        if self._is_closed:
            raise UnavailableError("this client was closed")

    def _bear_until(self) -> float:
        """How long replicas that all refuse us are borne with; for ever while one does not."""
        if self._refused_at is None:
            return math.inf
        return self._refused_at + (PATIENCE_S if self._has_met_one else 0)

    def _raise_refusal(self) -> NoReturn:
        troubles = (each.session.trouble for each in self.replicas.values())
        raise next(each for each in troubles if each is not None)

    def _takes_requests(self, replica: Replica) -> bool:
        return replica.session.is_ready and not replica.is_retired

    def _take(self, free: list[Replica]) -> Replica:
        """Among equals, the one whose last turn is longest ago."""
        chosen = min(
            free,
            key=lambda r: (r.session.in_flight, self._last_turn.get(r.session.address, 0)),
        )
        self._turns += 1
        self._last_turn[chosen.session.address] = self._turns
        return chosen

    def _notify(self) -> None:
        sessions = [each.session for each in self.replicas.values()]
        self._has_met_one = self._has_met_one or any(each.stage is not None for each in sessions)
        if not sessions or not all(each.is_refused for each in sessions):
            self._refused_at = None
        elif self._refused_at is None:
            self._refused_at = asyncio.get_running_loop().time()
        self._changed.set()
        self._changed = asyncio.Event()

    @staticmethod
    async def _wait(changed: asyncio.Event, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(changed.wait(), timeout_s)
        except TimeoutError:
            return

    async def _follow(self) -> None:
        while True:
            try:
                await self._refresh()
            except Exception:
                logger.exception("the stage's addresses could not be brought up to date")
            if self._discovery.is_fixed:
                return
            has_ready = any(self._takes_requests(each) for each in self.replicas.values())
            await asyncio.sleep(self._refresh_s if has_ready else RETRY_DISCOVERY_S)

    async def _refresh(self) -> None:
        """Meets new replicas; retires vanished ones, and leaves them when they owe nothing."""
        wanted = await self._discovery.addresses()
        for address in wanted - self.replicas.keys():
            logger.info("stage replica %s found", address)
            self.replicas[address] = Replica(
                self._context,
                address,
                client_name=self._client_name,
                curve=self._curve,
                on_change=self._notify,
            )
        for address, replica in list(self.replicas.items()):
            replica.is_retired = address not in wanted
            if replica.is_retired and not replica.session.in_flight:
                logger.info("stage replica %s is gone", address)
                del self.replicas[address]
                self._last_turn.pop(address, None)
                await replica.close()
        self._notify()


def _describe(replica: Replica) -> str:
    session = replica.session
    if session.trouble is not None:
        return str(session.trouble)
    if not session.is_connected:
        return f"{session.address}: not connected"
    if session.stage is None:
        return f"{session.address}: no answer to Hello"
    if session.is_ending:
        return f"{session.name}: ending"
    return f"{session.name}: {'ready' if session.stage.ready else 'not ready'}"
