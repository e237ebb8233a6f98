"""One DEALER and its monitor: frames out, frames and changes of the connection in."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.sockets import client_socket

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_DISCONNECTED
)


@dataclass(frozen=True, slots=True)
class Opened:
    """Connected: messages go out from now on."""


@dataclass(frozen=True, slots=True)
class Received:
    """The frames of one message, as views of memory that ZMQ received them in."""

    frames: tuple[memoryview, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended, or did not come about; another one is tried after a pause."""

    why: str


Event = Opened | Received | Lost


class Connection:
    """Connects, again and again, until `close`. Each connection has a socket of its own.

    Raises `zmq.ZMQError` for an address that ZMQ does not know.
    """

    def __init__(self, context: zmq.asyncio.Context, address: str) -> None:
        self._context = context
        self._address = address
        self._is_open = False
        self._failures = 0
        self._line: _Line | None = _Line(context, address)
        self._connect_at = 0.0

    def send(self, frames: Sequence[Frame]) -> bool:
        """False when the message was not taken: not connected, or too much is unsent already."""
        return self._is_open and self._line is not None and self._line.send(frames)

    async def events(self, timeout_s: float) -> list[Event]:
        """What happened, oldest first; empty after `timeout_s`.

        Messages come before a change of the connection: the last words of a stage are heard
        before its end is, and a stage says nothing on a new connection before our Hello.
        """
        if self._line is None:
            pause_s = self._connect_at - asyncio.get_running_loop().time()
            if pause_s > timeout_s:
                await asyncio.sleep(timeout_s)
                return []
            await asyncio.sleep(pause_s)
            self._line = _Line(self._context, self._address)
        messages, changes = await self._line.read(timeout_s)
        for change in changes:
            if isinstance(change, Lost):
                self._hang_up(self._line)
                return [*messages, change]
            self._is_open = True
            self._failures = 0
        return [*messages, *changes]

    def close(self) -> None:
        """Messages already taken are still sent, for as long as the socket's linger allows."""
        if self._line is not None:
            self._line.close()

    def _hang_up(self, line: "_Line") -> None:
        """What is unsent is dropped: it belongs to requests that have failed now."""
        line.close(linger_ms=0)
        self._line = None
        self._is_open = False
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._connect_at = asyncio.get_running_loop().time() + pause_s * random.uniform(0.5, 1.0)


class _Line:
    """The sockets of one connection."""

    def __init__(self, context: zmq.asyncio.Context, address: str) -> None:
        self._socket = client_socket(context, address, watch=_WATCHED)
        self._monitor = self._socket.get_monitor_socket()
        self._poller = zmq.asyncio.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def send(self, frames: Sequence[Frame]) -> bool:
        sent = self._socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=False)
        try:
            cast("asyncio.Future[object]", sent).result()  # NOBLOCK: it is done at once
        except zmq.Again:
            return False
        return True

    async def read(self, timeout_s: float) -> tuple[list[Received], list[Opened | Lost]]:
        """Changes are read first, so that no message before a change is missed."""
        await self._poller.poll(round(timeout_s * 1000))
        changes = [_change(raw) for raw in await _drain(self._monitor)]
        messages = [Received(tuple(raw)) for raw in await _drain(self._socket)]
        return messages, changes

    def close(self, linger_ms: int | None = None) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=linger_ms)


def _change(raw: list[memoryview]) -> Opened | Lost:
    event = parse_monitor_message([bytes(part) for part in raw])["event"]
    match event:
        case zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return Opened()
        case zmq.EVENT_CONNECT_RETRIED:
            return Lost("no connection")
        case zmq.EVENT_DISCONNECTED:
            return Lost("the connection was lost")
        case _:
            return Lost("it does not answer as a stage does: no ZMQ handshake")


async def _drain(socket: zmq.asyncio.Socket) -> list[list[memoryview]]:
    messages: list[list[memoryview]] = []
    while True:
        try:
            frames = await socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages
        messages.append([frame.buffer for frame in frames])
