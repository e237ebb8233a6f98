"""What goes out to clients: never blocks, copies no payload, and knows when it was sent."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import zmq

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire import codec
from diffusion_stage.wire.messages import StageMessage

Release = Callable[[], None]


@dataclass(slots=True)
class _Letter:
    """One message to one client, with what to release once it was sent or given up."""

    frames: list[codec.Frame]
    release: Release | None


@dataclass(frozen=True, slots=True)
class _Sending:
    """A payload that ZMQ has taken, and has not sent yet as a whole."""

    client: bytes
    tracker: zmq.MessageTracker
    release: Release


class ClientGoneError(Exception):
    """The client's connection is closed."""


class Outbox:
    """Sends on one ROUTER socket, in the thread that owns it.

    What a slow client cannot take waits in order, each client's on its own. That a client is gone
    whose buffer is full is noticed only while the owner also polls the socket for input: libzmq
    4.3.5 keeps such a pipe until its last input was looked for.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._waiting: dict[bytes, deque[_Letter]] = {}
        self._sending: list[_Sending] = []

    def send(
        self,
        client: bytes,
        message: StageMessage,
        payload: Sequence[codec.Frame] = (),
        release: Release | None = None,
    ) -> None:
        """Send, or keep for later. `release` is called exactly once, whatever happens.

        Raises `ClientGoneError`, and `InvalidArgumentError` for a header that is too long.
        """
        try:
            letter = _Letter(codec.encode(message, payload), release)
        except InvalidArgumentError:
            if release is not None:
                release()
            raise
        if client in self._waiting:
            self._waiting[client].append(letter)
        elif not self._try(client, letter):
            self._waiting[client] = deque([letter])

    def _try(self, client: bytes, letter: _Letter) -> bool:
        """Whether the letter is on its way; False while the client's buffer is full."""
        tracked = letter.release is not None
        try:
            tracker = self._socket.send_multipart(
                [client, *letter.frames], flags=zmq.NOBLOCK, copy=not tracked, track=tracked
            )
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if letter.release is not None:
                letter.release()
            if error.errno == zmq.EHOSTUNREACH:
                raise ClientGoneError from None
            raise
        if letter.release is not None:
            assert tracker is not None
            self._sending.append(_Sending(client, tracker, letter.release))
        return True

    def progress(self) -> list[bytes]:
        """Send what waited, release what was sent; returns clients that turned out to be gone."""
        gone = []
        for client, letters in list(self._waiting.items()):
            try:
                while letters and self._try(client, letters[0]):
                    letters.popleft()
            except ClientGoneError:
                letters.popleft()
                gone.append(client)
            if not letters:
                del self._waiting[client]
        still = []
        for each in self._sending:
            if each.tracker.done:
                each.release()
            else:
                still.append(each)
        self._sending = still
        return gone

    def drop(self, client: bytes) -> None:
        """Give up what waits for a client that is gone."""
        for letter in self._waiting.pop(client, ()):
            if letter.release is not None:
                letter.release()

    def waiting_for(self, client: bytes) -> int:
        """How many messages with payload, or after one, the client has not taken."""
        sending = sum(each.client == client for each in self._sending)
        return sending + len(self._waiting.get(client, ()))

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._sending

    def status(self) -> dict[str, Any]:
        return {
            "waiting": sum(map(len, self._waiting.values())),
            "sending": len(self._sending),
        }
