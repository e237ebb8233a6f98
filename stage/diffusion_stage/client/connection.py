"""One DEALER and its monitor: frames out, frames and changes of the connection in."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from diffusion_stage.client import greeting
from diffusion_stage.client.keys import CurveKeys, Keyring
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.keys import Credentials
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


@dataclass(frozen=True, slots=True)
class Refused:
    """As `Lost`, for want of a key that the other side knows; none of ours is left to try."""

    why: str


Event = Opened | Received | Lost | Refused


class _NotAdmitted:
    """The stage has read our key, and says no."""


class _NoHandshake:
    """Nobody there, or no common key or mechanism: the other side only closed the connection."""


_Change = Opened | Lost | _NotAdmitted | _NoHandshake


class Connection:
    """Connects, again and again, until `close`. Each connection has a socket of its own.

    With `curve` it speaks to nobody who has none of the servers' keys. They are tried in turn, the
    one that worked last first, and read again when none works. Raises `zmq.ZMQError` for an address
    that ZMQ does not know.
    """

    def __init__(
        self, context: zmq.asyncio.Context, address: str, curve: CurveKeys | None = None
    ) -> None:
        self._context = context
        self._address = address
        self._keyring = None if curve is None else Keyring(curve)
        self._is_open = False
        self._failures = 0
        self._line: _Line | None = self._dial()
        self._connect_at = 0.0

    def _dial(self) -> "_Line":
        credentials = None if self._keyring is None else self._keyring.credentials
        return _Line(self._context, self._address, credentials)

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
            self._line = self._dial()
        messages, changes = await self._line.read(timeout_s)
        for change in changes:
            if not isinstance(change, Opened):
                self._hang_up(self._line)
                return [*messages, *await self._end(change)]
            self._opened()
        return [*messages, *(each for each in changes if isinstance(each, Opened))]

    def _opened(self) -> None:
        self._is_open = True
        self._failures = 0
        if self._keyring is not None:
            self._keyring.worked()

    async def _end(self, change: Lost | _NotAdmitted | _NoHandshake) -> list[Lost | Refused]:
        """What to tell of the end; nothing, and no pause, while there is another key to try."""
        match change:
            case Lost():
                end: Lost | Refused | None = change
            case _NotAdmitted():
                end = await self._not_admitted()
            case _NoHandshake():
                end = await self._no_handshake()
        if end is None:
            return []
        self._pause()
        return [end]

    def close(self) -> None:
        """Messages already taken are still sent, for as long as the socket's linger allows."""
        if self._line is not None:
            self._line.close()

    async def _not_admitted(self) -> Refused | None:
        assert self._keyring is not None, "without keys there is nothing to admit"
        if await asyncio.to_thread(self._keyring.renew):
            return None
        keys = self._keyring.keys
        return Refused(
            f"it does not admit the public key {keys.public_key} of {keys.directory}; "
            "allowed: those in its list of clients"
        )

    async def _no_handshake(self) -> Lost | Refused | None:
        spoken = await greeting.mechanism(self._address)
        if self._keyring is None and spoken == greeting.CURVE:
            return Refused("it speaks with clients that have a key; none was given")
        if self._keyring is None or spoken not in (greeting.CURVE, greeting.NULL):
            return Lost("it does not answer as a stage does: no ZMQ handshake")
        keys = self._keyring.keys
        if spoken == greeting.NULL:
            return Refused(
                f"it has no key and speaks without encryption; the keys in {keys.directory} "
                "are for stages that have one"
            )
        if self._keyring.failed() or await asyncio.to_thread(self._keyring.renew):
            return None
        return Refused(f"it has none of the {len(keys.servers)} key(s) in {keys.directory}/servers")

    def _hang_up(self, line: "_Line") -> None:
        """What is unsent is dropped: it belongs to requests that have failed now."""
        line.close(linger_ms=0)
        self._line = None
        self._is_open = False

    def _pause(self) -> None:
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._connect_at = asyncio.get_running_loop().time() + pause_s * random.uniform(0.5, 1.0)


class _Line:
    """The sockets of one connection."""

    def __init__(
        self, context: zmq.asyncio.Context, address: str, credentials: Credentials | None
    ) -> None:
        self._socket = client_socket(context, address, watch=_WATCHED, credentials=credentials)
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

    async def read(self, timeout_s: float) -> tuple[list[Received], list[_Change]]:
        """Changes are read first, so that no message before a change is missed."""
        await self._poller.poll(round(timeout_s * 1000))
        changes = [_change(raw) for raw in await _drain(self._monitor)]
        messages = [Received(tuple(raw)) for raw in await _drain(self._socket)]
        return messages, changes

    def close(self, linger_ms: int | None = None) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=linger_ms)


def _change(raw: list[memoryview]) -> _Change:
    event = parse_monitor_message([bytes(part) for part in raw])["event"]
    match event:
        case zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return Opened()
        case zmq.EVENT_CONNECT_RETRIED:
            return Lost("no connection")
        case zmq.EVENT_DISCONNECTED:
            return Lost("the connection was lost")
        case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return _NotAdmitted()
        case _:
            return _NoHandshake()


async def _drain(socket: zmq.asyncio.Socket) -> list[list[memoryview]]:
    messages: list[list[memoryview]] = []
    while True:
        try:
            frames = await socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages
        messages.append([frame.buffer for frame in frames])
