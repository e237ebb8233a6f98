"""One DEALER and its monitor: frames out, frames and changes of the connection in."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.sockets import monitored_client_socket

_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
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
    """The connection ended or was refused; ZMQ goes on trying to connect."""

    why: str


Event = Opened | Received | Lost


class Connection:
    """Owns its sockets until `close`. Raises `zmq.ZMQError` for an address ZMQ does not know."""

    def __init__(self, context: zmq.asyncio.Context, address: str) -> None:
        self._socket, self._monitor = monitored_client_socket(context, address, _WATCHED)
        self._poller = zmq.asyncio.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def send(self, frames: Sequence[Frame]) -> bool:
        """False when the message was not taken: not connected, or too much is unsent already."""
        sent = self._socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=False)
        try:
            cast("asyncio.Future[object]", sent).result()  # NOBLOCK: it is done at once
        except zmq.Again:
            return False
        return True

    async def events(self, timeout_s: float) -> list[Event]:
        """What happened, oldest first; empty after `timeout_s`.

        Messages come before a change of the connection: the last words of a stage are heard
        before its end is, and a stage says nothing on a new connection before our Hello.
        """
        await self._poller.poll(round(timeout_s * 1000))
        changes = [await self._change(raw) for raw in await _drain(self._monitor)]
        messages = [Received(tuple(raw)) for raw in await _drain(self._socket)]
        return [*messages, *changes]

    async def _change(self, raw: list[memoryview]) -> Opened | Lost:
        event = parse_monitor_message([bytes(part) for part in raw])["event"]
        match event:
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return Opened()
            case zmq.EVENT_DISCONNECTED:
                return Lost("the connection was lost")
            case _:
                return Lost("it does not answer as a stage does: no ZMQ handshake")

    def close(self) -> None:
        """Messages already taken are still sent, for as long as the sockets' linger allows."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()


async def _drain(socket: zmq.asyncio.Socket) -> list[list[memoryview]]:
    messages: list[list[memoryview]] = []
    while True:
        try:
            frames = await socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages
        messages.append([frame.buffer for frame in frames])
