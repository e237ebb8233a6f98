"""One stage that a client talks to: its connection, its session, and the task that joins them."""

import asyncio
import logging
from collections.abc import Callable
from typing import assert_never

import zmq.asyncio

from diffusion_stage.client.connection import (
    Connection,
    Event,
    Lost,
    Opened,
    Received,
    Refused,
)
from diffusion_stage.client.keys import CurveKeys
from diffusion_stage.client.session import Session

TICK_S = 0.5

logger = logging.getLogger(__name__)


class Replica:
    """Owns the connection and its task until `close`. `is_retired`: gets no new requests."""

    def __init__(
        self,
        context: zmq.asyncio.Context,
        address: str,
        *,
        client_name: str,
        curve: CurveKeys | None,
        on_change: Callable[[], None],
    ) -> None:
        self._connection = Connection(context, address, curve)
        self.session = Session(
            address, client_name=client_name, send=self._connection.send, on_change=on_change
        )
        self.is_retired = False
        self._task = asyncio.create_task(self._run(), name=f"replica {address}")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Requests under way fail. The sockets are closed even if this wait is interrupted."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def _ended(self, _: asyncio.Task[None]) -> None:
        self.session.cancel_all()
        self._connection.close()
        self.session.lost("this client was closed")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for event in await self._connection.events(TICK_S):
                try:
                    self._handle(event, loop.time())
                except Exception:
                    logger.exception("%s: a message was left out", self.session.name)
            self.session.tick(now=loop.time())

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case Received():
                self.session.received(event.frames, now=now)
            case Opened():
                self.session.opened(now=now)
            case Lost():
                self.session.lost(event.why)
            case Refused():
                self.session.refused(event.why)
            case _:
                assert_never(event)
