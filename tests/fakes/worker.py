"""A worker process played by a test: it hears what the stage says, and says what it is told to."""

import os
import select
import socket
import subprocess
import threading

from diffusion_stage.worker import messages as m
from diffusion_stage.worker.channel import Channel
from diffusion_stage.worker.death_notice import DeathNotice
from tests.stage.builders import CAPABILITIES, PIXEL

READY = m.Ready(capabilities=CAPABILITIES)


class FakeWorker:
    """Stands for `subprocess.Popen` of a worker; `start` is the first thing it says."""

    start = READY

    def __init__(self, command, *, pass_fds, env, stdin):
        channel, lifeline, notice = pass_fds
        self.pid = os.getpid()
        self.environment = env
        self.returncode = None
        self._obeys = True
        self.signals = []
        self._lifeline = os.dup(lifeline)
        self.channel = Channel(socket.socket(fileno=os.dup(channel)))
        self.spec = None
        self._ended = threading.Event()
        self._notice = os.dup(notice)
        self._live(self._notice)
        if self.start is not None:
            self.say(self.start)

    def _live(self, notice):
        """Holds the notice in a thread of its own, whose end is a death to the stage."""
        lives = threading.Event()

        def live():
            DeathNotice(notice).lock()
            lives.set()
            self._ended.wait()

        self._thread = threading.Thread(target=live, daemon=True)
        self._thread.start()
        lives.wait()

    def say(self, message, descriptors=()):
        self.channel.send(m.encoder.encode(message), descriptors)

    def heard(self):
        """All that the stage said since the last call; the first is the worker's own spec."""
        messages = []
        while select.select([self.channel], [], [], 0)[0]:
            body, _ = self.channel.receive()
            messages.append(body)
        if self.spec is None and messages:
            self.spec = m.msgspec.msgpack.decode(messages.pop(0), type=m.WorkerSpec)
        return [m.to_worker.decode(body) for body in messages]

    def computed(self, call_id, **given):
        self.say(m.ComputeDone(call_id=call_id, **given))

    def packed(self, call_id, *, reason=None, message="", **given):
        """The output, one pixel, in the message itself; or why there is none."""
        output = given or {"specs": (PIXEL,), "inline": (b"rgb",)}
        packed = None if reason else m.Packed(**output)
        self.say(m.OutputReady(call_id=call_id, packed=packed, reason=reason, message=message))

    def end(self, returncode):
        """As the kernel does it: descriptors are closed, and the parent may ask for the code."""
        self.returncode = returncode
        self.close()

    @property
    def is_tied(self):
        """Whether the stage holds the other end of the lifeline."""
        return not select.select([self._lifeline], [], [], 0)[0]

    def hang_up(self):
        """Says and hears nothing more, but does not end."""
        self._obeys = False
        self.close()

    def let_go(self):
        """The first thing of a death: the notice passes on, the socket is still open."""
        self._ended.set()
        self._thread.join()

    def close(self):
        self.channel.close()
        self.let_go()

    def dispose(self):
        """After the end: gives back what a process would have."""
        self.close()
        os.close(self._lifeline)
        os.close(self._notice)

    # What the stage calls.

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None and self._obeys and m.Stop() in self.heard():
            self.end(0)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        return self.returncode

    def kill(self):
        self.signals.append("SIGKILL")
        self.end(-9)
