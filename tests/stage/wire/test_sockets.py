"""The two ends of the wire, on loopback."""

import time

import pytest
import zmq

from diffusion_stage.wire.sockets import (
    MAX_FRAME_BYTES,
    client_socket,
    server_socket,
)
from tests.fakes.stage import ANY_PORT

WAIT_MS = 5_000


@pytest.fixture
def context():
    with zmq.Context() as context:
        yield context


@pytest.fixture
def server(context):
    with server_socket(context, ANY_PORT) as socket:
        yield socket


def address_of(socket):
    return socket.get_string(zmq.LAST_ENDPOINT)


def test_messages_go_both_ways(context, server):
    with client_socket(context, address_of(server)) as client:
        assert client.poll(WAIT_MS, zmq.POLLOUT)
        client.send(b"question", zmq.NOBLOCK)
        identity, _ = server.recv_multipart()
        server.send_multipart([identity, b"answer"])
        assert client.recv() == b"answer"


def test_a_message_waits_for_the_connection(context, server):
    with client_socket(context, address_of(server)) as client:
        client.send(b"question", zmq.NOBLOCK)
        assert server.recv_multipart()[1:] == [b"question"]


def test_sending_to_a_client_that_is_gone_says_so(server):
    with pytest.raises(zmq.ZMQError) as caught:
        server.send_multipart([b"gone", b"answer"], zmq.NOBLOCK)
    assert caught.value.errno == zmq.EHOSTUNREACH


def test_a_client_does_not_connect_again_by_itself(context, server):
    address = address_of(server)
    client = client_socket(context, address, watch=zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECTED)
    with client, client.get_monitor_socket() as monitor:
        assert monitor.poll(WAIT_MS)
        monitor.recv_multipart()
        server.close(linger=0)
        assert monitor.poll(WAIT_MS)
        monitor.recv_multipart()
        with server_socket(context, address) as again:
            assert not again.poll(300)
            assert not monitor.poll(0)
        client.disable_monitor()


def test_a_monitor_tells_of_the_first_connection_and_of_its_end(context, server):
    address = address_of(server)
    watched = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
    client = client_socket(context, address, watch=watched)
    with client, client.get_monitor_socket() as monitor:
        assert monitor.poll(WAIT_MS)
        monitor.recv_multipart()
        started_at = time.monotonic()
        server.close(linger=0)
        assert monitor.poll(WAIT_MS)
        assert time.monotonic() - started_at < 1
        client.disable_monitor()


def test_a_frame_of_100_mb_arrives(context, server):
    size_bytes = 100 << 20
    assert size_bytes < MAX_FRAME_BYTES
    with client_socket(context, address_of(server)) as client:
        assert client.poll(WAIT_MS, zmq.POLLOUT)
        client.send(bytes(size_bytes), zmq.NOBLOCK, copy=False)
        assert server.poll(30_000)
        _, frame = server.recv_multipart(copy=False)
        assert len(frame) == size_bytes


@pytest.mark.parametrize("address", ["tcp://", "nonsense", "tcp://127.0.0.1"])
@pytest.mark.parametrize("make", [client_socket, server_socket])
def test_a_malformed_address_raises_and_leaves_no_socket(context, make, address):
    with pytest.raises(zmq.ZMQError):
        make(context, address)


def test_a_taken_port_raises(context, server):
    with pytest.raises(zmq.ZMQError, match="in use"):
        server_socket(context, address_of(server))
