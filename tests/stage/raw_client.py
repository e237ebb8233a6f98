"""A client that sees every message: it retries nothing, hides nothing, and may say anything."""

import time

import zmq

from diffusion_stage.wire import codec
from diffusion_stage.wire.messages import (
    Accepted,
    Control,
    ControlReply,
    Error,
    Hello,
    Ping,
    Progress,
    Result,
)
from diffusion_stage.wire.sockets import client_socket
from diffusion_stage.wire.tensors import array
from tests.stage.builders import make_submit

TIMEOUT_S = 60.0


class RawClient:
    """One DEALER to one stage; use it in one thread. Pings are answered, but for a mute client's.

    `heard` has everything that was read, each with the monotonic time it was read at. What nobody
    has asked for yet waits, so the order in which a test asks is its own.
    """

    def __init__(self, address, *, is_mute=False, credentials=None):
        self._context = zmq.Context()
        self._socket = client_socket(self._context, address, credentials=credentials)
        self._is_mute = is_mute
        self.heard = []
        self._unread = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """At once, as the kernel does it for a process that was killed."""
        self._socket.close(linger=0)
        self._context.term()

    def say(self, message, payload=()):
        self.say_frames(codec.encode(message, payload))

    def say_frames(self, frames):
        self._socket.send_multipart(frames)

    def submit(self, request_id, **given):
        """Sends a `Submit` of these fields and parameters."""
        payload = given.pop("payload", ())
        self.say(make_submit(request_id, **given), payload)

    def greet(self):
        self.say(Hello(name="raw"))
        return self.hear(Hello)

    def hear(self, kind, *, request_id=None, timeout_s=TIMEOUT_S):
        """The next message of a kind (of a request)."""
        return self.hear_all(kind, request_id=request_id, timeout_s=timeout_s)[0]

    def hear_all(self, kind, *, request_id=None, timeout_s=TIMEOUT_S):
        """As `hear`; message and payload."""
        deadline = time.monotonic() + timeout_s
        seen = 0
        while True:
            for message, payload in self._unread[seen:]:
                is_its = request_id is None or getattr(message, "request_id", None) == request_id
                if isinstance(message, kind) and is_its:
                    self._unread.remove((message, payload))
                    return message, payload
            seen = len(self._unread)
            self._unread.append(self._read(deadline))

    def accepted(self, request_id, **given):
        """Submits and waits for the stage's word that it will answer."""
        self.submit(request_id, **given)
        return self.hear(Accepted, request_id=request_id)

    def end_of(self, request_id, timeout_s=TIMEOUT_S):
        """The request's `Result` or `Error`."""
        return self.hear(Result | Error, request_id=request_id, timeout_s=timeout_s)

    def image_of(self, request_id, timeout_s=TIMEOUT_S):
        """The first image of the request's result."""
        message, payload = self.hear_all(Result | Error, request_id=request_id, timeout_s=timeout_s)
        assert isinstance(message, Result), message
        return array(message.outputs[0], payload[0])[0]

    def images_of(self, request_ids):
        """The first image of each request's result, by id; the results may come in any order."""
        found = {}
        while len(found) < len(request_ids):
            message, payload = self.hear_all(Result | Error)
            assert isinstance(message, Result), message
            assert message.request_id not in found, "answered twice"
            found[message.request_id] = array(message.outputs[0], payload[0])[0]
        return found

    def control(self, method):
        """The value of a control call."""
        self.say(Control(control_id=method, method=method))
        reply = self.hear(ControlReply)
        assert reply.error is None, reply.error
        return reply.value

    def step_of(self, request_id, step=1):
        """Waits until that step of the request is done."""
        while self.hear(Progress, request_id=request_id).step < step:
            pass

    def errors(self):
        return [message for message, _ in self.heard if isinstance(message, Error)]

    def hears_nothing_of(self, kind, *, for_s):
        """Whether no such message comes in that time."""
        try:
            self.hear(kind, timeout_s=for_s)
        except TimeoutError:
            return True
        return False

    def _read(self, deadline):
        left_ms = max(0, round(1000 * (deadline - time.monotonic())))
        if not self._socket.poll(left_ms):
            raise TimeoutError(f"heard only {[type(m).__name__ for m, _ in self.heard[-20:]]}")
        message, payload = codec.decode_stage(self._socket.recv_multipart())
        self.heard.append((message, time.monotonic()))
        if isinstance(message, Ping) and not message.reply and not self._is_mute:
            self.say(Ping(token=message.token, reply=True))
        return message, payload
