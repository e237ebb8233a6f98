"""A stage as a container runs it: `diffusion-stage serve`, its ports, its last words, its end."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.stage.pids import children, wait_gone
from tests.stage.raw_client import RawClient

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "diffusion-stage"
START_S = 240.0  # a busy machine takes long to import torch; a test of the limit sets its own
END_S = 60.0
FAKE = "tests.fakes.pipelines"


# Below those that the kernel gives away by itself; runs at the same time begin far apart.
PORTS = range(20_000, 32_000)
_turns = itertools.count(os.getpid() * 5003)


def free_port():
    """One that nobody takes before the stage does, nor while it is made anew."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = PORTS[next(_turns) % len(PORTS)]
            probe.bind(("127.0.0.1", port))
            return port


class StageProcess:
    """Owns the process; `folder` gets its log and its termination message.

    `flags` are those of `serve`, with underscores for dashes: `num_gpus=2`, `no_warmup=True`.
    """

    def __init__(self, folder, *, env=None, **flags):
        folder.mkdir(parents=True, exist_ok=True)
        self.termination_log = folder / "termination-log"
        self._log = folder / "log"
        self.port = flags.setdefault("port", free_port())
        self.admin_port = flags.setdefault("admin_port", free_port())
        given = {"host": "127.0.0.1", "device": "cpu", "termination_log": self.termination_log}
        with self._log.open("wb") as log:
            self.started_at = time.monotonic()
            self.process = subprocess.Popen(
                [COMMAND, "serve", *_command_line(given | flags)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "HF_HUB_OFFLINE": "1",
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'stage'}",  # this copy, whichever is installed
                    **(env or {}),
                },
            )

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def log(self):
        return self._log.read_text(errors="replace")

    @property
    def last_words(self):
        """The termination message, None if there is none."""
        if not self.termination_log.exists():
            return None
        text = self.termination_log.read_text()
        assert len(text.encode()) <= 4096
        assert "\n" not in text
        return json.loads(text)

    def client(self, **given):
        return RawClient(self.address, **given)

    def get(self, path, timeout_s=10.0):
        """Status code and body of the admin port; (0, why) when nothing answers."""
        url = f"http://127.0.0.1:{self.admin_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=timeout_s) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    @property
    def status(self):
        return json.loads(self.get("/status")[1])

    def probes(self):
        """Codes of startup, liveness and readiness."""
        return tuple(self.get(path)[0] for path in ("/startupz", "/livez", "/readyz"))

    def wait(self, is_so, timeout_s, what):
        """Polls until it is so; a stage that ended meanwhile fails the test with its log."""
        deadline = time.monotonic() + timeout_s
        while not (found := is_so()):
            if self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}\n{self.log}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not {what} in {timeout_s} s\n{self.log}")
            time.sleep(0.02)
        return found

    def wait_ready(self):
        self.wait(lambda: self.get("/readyz")[0] == 200, START_S, "ready")
        return self

    def wait_idle(self, timeout_s=30.0):
        """Until no request is left of whatever a test sent."""
        none = {"waiting": 0, "running": 0, "materializing": 0}
        self.wait(lambda: self.status["load"] == none, timeout_s, "idle")

    def workers(self):
        """Process ids by rank, as the workers tell them."""
        with self.client() as client:
            return {each["rank"]: each["pid"] for each in client.control("workers")}

    def children(self):
        return children(self.process.pid)

    def kill(self, signum=signal.SIGKILL):
        self.process.send_signal(signum)

    def end(self, timeout_s=END_S):
        """The exit code, once it has ended."""
        return self.process.wait(timeout_s)

    def close(self):
        """Ends it if need be, and whatever workers it left."""
        if self.process.poll() is None:
            workers = self.children()
            self.kill()
            self.process.wait()
            assert wait_gone(workers, timeout_s=5.0) == []


def _command_line(flags):
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        yield from [flag] if value is True else [flag, str(value)]
