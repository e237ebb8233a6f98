"""A socket pair between two processes of a pod: whole messages, and descriptors beside them."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Sequence

_LENGTH = struct.Struct("<IB")  # body bytes, number of descriptors
MAX_DESCRIPTORS = 250  # the kernel takes 253 in a message


class ChannelClosedError(Exception):
    """The other side is gone."""


class Channel:
    """Sends from any thread, receives in one. The owner closes it."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, body: bytes, descriptors: Sequence[int] = ()) -> None:
        """Blocks while the other side's buffer is full. Raises `ChannelClosedError`."""
        head = _LENGTH.pack(len(body), len(descriptors))
        try:
            with self._sending:
                if descriptors:
                    socket.send_fds(self._socket, [head], list(descriptors))
                    self._socket.sendall(body)
                else:
                    self._socket.sendall(head + body)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self) -> tuple[bytes, list[int]]:
        """Blocks for a whole message; the caller owns the descriptors."""
        try:
            head, descriptors = self._receive_head()
            return self._receive_exactly(head[0]), descriptors
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def _receive_head(self) -> tuple[tuple[int, int], list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self._socket, _LENGTH.size, MAX_DESCRIPTORS)
        if not data:
            raise ChannelClosedError("closed by the other side")
        data += self._receive_exactly(_LENGTH.size - len(data))
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return _LENGTH.unpack(data), descriptors

    def _receive_exactly(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ChannelClosedError("closed by the other side in mid-message")
            view = view[count:]
        return bytes(buffer)

    def close(self) -> None:
        """Wakes a thread that receives, on both sides."""
        with contextlib.suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
