"""What a ZMQ socket says to everybody who connects, keys or not: the greeting of ZMTP.

When the two sides want different mechanisms, or know each other by other keys, libzmq only closes
the connection; the greeting tells which it was.
"""

import asyncio
import re
import socket

TIMEOUT_S = 2.0
NULL = "NULL"
CURVE = "CURVE"

_OURS = (
    b"\xff" + bytes(8) + b"\x7f" + b"\x03"
)  # signature and version, https://rfc.zeromq.org/spec/23/
_LENGTH = 64
_MECHANISM = slice(12, 32)


async def mechanism(address: str) -> str | None:
    """NULL, CURVE or another; None when nothing answers as ZMQ does, after 2 s at the latest."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            greeting = await _greeting(host, int(port))
    except (OSError, EOFError, TimeoutError):
        return None
    name = greeting[_MECHANISM].rstrip(b"\0")
    is_zmq = greeting[0] == _OURS[0] and re.fullmatch(rb"[A-Z0-9_.+-]+", name)
    return name.decode() if is_zmq else None


async def _greeting(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, family=socket.AF_INET)
    try:
        writer.write(_OURS)
        return await reader.readexactly(_LENGTH)
    finally:
        writer.close()
