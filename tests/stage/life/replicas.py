"""Replicas that are started again when they end, and a load on them that is checked."""

import asyncio
import signal
import threading
import time
from collections import Counter

import numpy as np

from tests.fakes.pipelines import picture
from tests.stage.process import free_port

CALLERS = 12
STEP_S = 0.05


class Replica:
    """A stage that is started again on the same ports whenever it ends, until `stop`.

    `flags` are those of `serve`.
    """

    def __init__(self, serve, name, **flags):
        self._serve = serve
        self._flags = {"num_gpus": 2} | flags
        self._ports = {"port": free_port(), "admin_port": free_port()}
        self._name = name
        self._is_stopping = False
        self.exit_codes = []
        self._start()
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _start(self):
        self.stage = self._serve(name=self._name, **self._ports, **self._flags)

    def _supervise(self):
        while True:
            code = self.stage.process.wait()
            if self._is_stopping:
                return
            self.exit_codes.append(code)
            self._start()

    def is_ready(self):
        return self.stage.get("/readyz")[0] == 200

    def wait_ready(self, timeout_s=240):
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            assert time.monotonic() < deadline, self.stage.log
            time.sleep(0.05)
        return self

    def stop(self):
        self._is_stopping = True
        self.stage.kill(signal.SIGTERM)
        assert self.stage.end() == 0, self.stage.log
        self._thread.join()


class Load:
    """Callers that send what they are given, check each image, and count."""

    def __init__(self):
        self.to_do, self.done = asyncio.Queue(), asyncio.Queue()
        self.answered, self.attempts, self.seconds = Counter(), Counter(), []

    async def caller(self, client):
        while (seed := await self.to_do.get()) is not None:
            start = time.monotonic()
            made = await client.generate(
                f"icon {seed}", seed=seed, request_id=f"{seed}", step_s=STEP_S, timeout_s=300
            )
            self.seconds.append(time.monotonic() - start)
            np.testing.assert_array_equal(made.images[0], picture(f"icon {seed}", seed))
            self.answered[made.request_id] += 1
            self.attempts[made.attempts] += 1
            self.done.put_nowait(seed)

    def send(self, seeds):
        for seed in seeds:
            self.to_do.put_nowait(seed)

    async def answers(self, count):
        for _ in range(count):
            await self.done.get()
