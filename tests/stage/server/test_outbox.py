"""What goes out: in order, never waiting, and every output given back exactly once."""

import time

import pytest
import zmq

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.server.outbox import ClientGoneError, Outbox
from diffusion_stage.wire import codec
from diffusion_stage.wire.messages import Ping, Result, Tensor

BLOCK = bytes(1 << 20)
SPEC = Tensor(name="x", kind="tensor", dtype="uint8", shape=(len(BLOCK),))


class Wire:
    """A ROUTER and clients over loopback, with buffers that are soon full."""

    def __init__(self):
        self._context = zmq.Context()
        self.router = self._socket(zmq.ROUTER)
        self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.router.setsockopt(zmq.SNDBUF, 1 << 16)
        self._port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self._clients = []

    def _socket(self, kind):
        socket = self._context.socket(kind)
        for option in (zmq.SNDHWM, zmq.RCVHWM):
            socket.setsockopt(option, 1)
        socket.setsockopt(zmq.LINGER, 0)
        return socket

    def connect(self):
        """A client that has said something; its socket and its name at the router."""
        client = self._socket(zmq.DEALER)
        client.setsockopt(zmq.RCVBUF, 1 << 16)
        client.connect(f"tcp://127.0.0.1:{self._port}")
        client.send(b"hello")
        self._clients.append(client)
        return client, self.router.recv_multipart()[0]

    def close(self):
        for socket in (self.router, *self._clients):
            socket.close()
        self._context.term()


@pytest.fixture
def wire():
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture
def outbox(wire):
    return Outbox(wire.router)


@pytest.fixture
def released():
    return []


@pytest.fixture
def send(outbox, released):
    """Sends a block that is noted when it is given back."""

    def send(client, number):
        result = Result(request_id=f"{number}", attempt=1, outputs=[SPEC], seed=0)
        outbox.send(client, result, [BLOCK], lambda: released.append(number))

    return send


def receive(client):
    message, payload = codec.decode_stage(client.recv_multipart())
    return message, [bytes(frame) for frame in payload]


def progress_until(wire, outbox, is_so):
    """As the socket loop does it, every few milliseconds; gives the clients that are gone."""
    gone, deadline = [], time.monotonic() + 10
    while not is_so(gone):
        assert time.monotonic() < deadline
        gone += outbox.progress()
        wire.router.poll(2)
    return gone


def is_empty(outbox):
    return lambda gone: outbox.is_empty


def test_a_message_is_sent_at_once(wire, outbox):
    client, name = wire.connect()
    outbox.send(name, Ping(token="x"))
    assert receive(client) == (Ping(token="x"), [])
    assert outbox.is_empty


def test_a_payload_is_given_back_once_it_was_sent(wire, outbox, send, released):
    client, name = wire.connect()
    send(name, 1)
    assert receive(client)[1] == [BLOCK]
    progress_until(wire, outbox, is_empty(outbox))
    outbox.progress()
    assert released == [1]


def test_what_a_slow_client_cannot_take_waits_in_order(wire, outbox, send, released):
    client, name = wire.connect()
    for number in range(12):
        send(name, number)
    assert outbox.status()["waiting"] > 0
    assert outbox.waiting_for(name) > 1
    heard = []

    def has_heard_all(gone):
        while client.poll(0):
            heard.append(receive(client)[0].request_id)
        return len(heard) == 12 and outbox.is_empty

    progress_until(wire, outbox, has_heard_all)
    assert heard == [f"{number}" for number in range(12)]
    assert sorted(released) == list(range(12))
    assert outbox.waiting_for(name) == 0


def test_a_slow_client_holds_up_no_other(wire, outbox, send):
    _, slow = wire.connect()
    quick, name = wire.connect()
    for number in range(12):
        send(slow, number)
    outbox.send(name, Ping(token="x"))
    assert receive(quick)[0] == Ping(token="x")


def test_all_that_waits_for_a_client_that_is_gone_is_given_back(wire, outbox, send, released):
    client, name = wire.connect()
    for number in range(12):
        send(name, number)
    client.close()
    assert progress_until(wire, outbox, bool) == [name]
    outbox.drop(name)
    progress_until(wire, outbox, is_empty(outbox))
    assert sorted(released) == list(range(12))


def test_a_client_that_never_was_is_told_as_gone_and_its_payload_given_back(send, released):
    with pytest.raises(ClientGoneError):
        send(b"nobody", 1)
    assert released == [1]


def test_a_header_that_is_too_long_is_refused_and_its_payload_given_back(wire, outbox):
    _, name = wire.connect()
    released = []
    with pytest.raises(InvalidArgumentError, match="at most 1048576 are allowed"):
        outbox.send(name, Ping(token="x" * (1 << 20)), [BLOCK], lambda: released.append(1))
    assert released == [1]
