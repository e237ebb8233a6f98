"""Whole messages between two processes of a pod, and descriptors beside them."""

import os
import socket
import threading

import pytest

from diffusion_stage.worker.channel import Channel, ChannelClosedError


@pytest.fixture
def ends():
    pair = [Channel(end) for end in socket.socketpair()]
    yield pair
    for end in pair:
        end.close()


@pytest.fixture
def in_thread():
    """Runs a function beside the test, and waits for it at the end."""
    threads = []

    def start(function, *args):
        threads.append(threading.Thread(target=function, args=args))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(timeout=10)


@pytest.mark.parametrize("size", [0, 1, 1000, 5_000_000])
def test_a_message_of_any_size_arrives_whole(ends, in_thread, size):
    body = os.urandom(size)
    in_thread(ends[0].send, body)
    assert ends[1].receive() == (body, [])


def test_messages_keep_their_order_and_their_borders(ends):
    for body in (b"one", b"", b"two"):
        ends[0].send(body)
    assert [ends[1].receive()[0] for _ in range(3)] == [b"one", b"", b"two"]


def test_threads_do_not_mix_their_messages(ends, in_thread):
    bodies = [bytes([n]) * 100_000 for n in range(8)]
    for body in bodies:
        in_thread(ends[0].send, body)
    assert sorted(ends[1].receive()[0] for _ in bodies) == bodies


def test_a_descriptor_arrives_with_its_message_and_stays_with_this_process(ends):
    file = os.memfd_create("sent")
    os.write(file, b"content")
    ends[0].send(b"before")
    ends[0].send(b"here it is", [file])
    ends[0].send(b"after")
    os.close(file)
    assert ends[1].receive() == (b"before", [])
    body, (received,) = ends[1].receive()
    assert body == b"here it is"
    assert os.pread(received, 10, 0) == b"content"
    assert not os.get_inheritable(received)
    os.close(received)
    assert ends[1].receive() == (b"after", [])


def test_the_end_of_the_other_side_is_told(ends):
    ends[0].close()
    with pytest.raises(ChannelClosedError, match="closed by the other side"):
        ends[1].receive()
    with pytest.raises(ChannelClosedError):
        ends[1].send(b"anybody?")


def test_an_end_in_mid_message_is_told(ends):
    os.write(ends[0].fileno(), (100).to_bytes(4, "little") + b"\0" + b"only a part")
    ends[0].close()
    with pytest.raises(ChannelClosedError, match="in mid-message"):
        ends[1].receive()


def test_closing_wakes_who_waits_for_a_message(ends, in_thread):
    woken = threading.Event()

    def receive():
        with pytest.raises(ChannelClosedError):
            ends[1].receive()
        woken.set()

    in_thread(receive)
    ends[1].close()
    assert woken.wait(timeout=10)


def test_closing_twice_is_no_trouble(ends):
    ends[0].close()
    ends[0].close()
