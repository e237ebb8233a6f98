"""The two ends of the wire as ZMQ sockets, with the options that both sides rely on.

How a lost peer is noticed: a closed connection at once; a dead host or a cut network by the kernel,
when it acknowledges nothing for `PEER_GONE_MS` (heartbeats see to it that there is always something
to acknowledge); a frozen process by missing heartbeats. Heartbeats wait longer than the kernel,
because a pong queues behind a payload frame that is on its way.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import zmq

from diffusion_stage.wire.keys import Credentials

MAX_FRAME_BYTES = 512 << 20  # a longer frame ends its sender's connection, without an answer
HEARTBEAT_MS = 5_000
HEARTBEAT_TIMEOUT_MS = 30_000
PEER_GONE_MS = 15_000
CONNECT_TIMEOUT_MS = 5_000
HANDSHAKE_TIMEOUT_MS = 10_000
NEVER_MS = 3_600_000  # its socket is closed long before
LINGER_MS = 1_000
BACKLOG = 1_024  # connections not yet accepted: every client returns at once after a restart
DOMAIN = b"stage"  # a name of ours for what ZAP asks about

S = TypeVar("S", bound="zmq.Socket[Any]")

_COMMON = {
    zmq.LINGER: LINGER_MS,
    zmq.HEARTBEAT_IVL: HEARTBEAT_MS,
    zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_TIMEOUT_MS,
    zmq.HEARTBEAT_TTL: HEARTBEAT_TIMEOUT_MS,
    zmq.TCP_MAXRT: PEER_GONE_MS,
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES,
    zmq.IPV6: 0,
}
_CLIENT = {
    zmq.CONNECT_TIMEOUT: CONNECT_TIMEOUT_MS,
    zmq.HANDSHAKE_IVL: HANDSHAKE_TIMEOUT_MS,
    # Never by itself: what was queued for the old connection would go out on the new one. The
    # options against that, IMMEDIATE and RECONNECT_IVL -1, drop answers that have arrived, and end
    # the process when they do so between two frames (libzmq 4.3.5, `!_more` in fq.cpp).
    zmq.RECONNECT_IVL: NEVER_MS,
}
_SERVER = {
    zmq.ROUTER_MANDATORY: 1,
    zmq.BACKLOG: BACKLOG,
}


def client_socket(
    context: zmq.Context[S],
    address: str,
    *,
    watch: zmq.Event | None = None,
    credentials: Credentials | None = None,
) -> S:
    """A DEALER that connects to one stage, for one connection.

    When that ends, or does not come about, the caller closes it and makes another. Messages sent
    before it is connected wait. `watch` names events that `get_monitor_socket()` of the socket will
    tell, from the first on; the caller closes that too. `credentials` make it speak CURVE, with
    nobody but the stage of that key. Raises `zmq.ZMQError` for a malformed address.
    """
    socket = context.socket(zmq.DEALER)
    _set(socket, _COMMON | _CLIENT)
    if credentials is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, credentials.public_key.encode())
        socket.setsockopt(zmq.CURVE_SECRETKEY, credentials.secret_key.encode())
        socket.setsockopt(zmq.CURVE_SERVERKEY, credentials.server_key.encode())
    monitor = None if watch is None else socket.get_monitor_socket(watch)
    try:
        return _attach(socket, socket.connect, address)
    except zmq.ZMQError:
        if monitor is not None:
            monitor.close(linger=0)
        raise


def server_socket(context: zmq.Context[S], address: str, *, secret_key: str | None = None) -> S:
    """A ROUTER bound to `address`; sending to a client that is gone raises EHOSTUNREACH.

    With `secret_key` it speaks CURVE, and nobody comes in whom a ZAP handler in the same context
    does not admit. The caller closes it. Raises `zmq.ZMQError` when the address is malformed or
    taken.
    """
    socket = context.socket(zmq.ROUTER)
    _set(socket, _COMMON | _SERVER)
    if secret_key is not None:
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, secret_key.encode())
        socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # no handler: nobody, and not everybody
    return _attach(socket, socket.bind, address)


def _attach(socket: S, attach: Callable[[str], object], address: str) -> S:
    try:
        attach(address)
    except zmq.ZMQError:
        socket.close(linger=0)
        raise
    return socket


def _set(socket: zmq.Socket[Any], options: dict[zmq.SocketOption, int]) -> None:
    for option, value in options.items():
        socket.setsockopt(option, value)
