"""Two replicas, of which one or the other dies under load and is started again, as in a cluster."""

import asyncio
import itertools
import os
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

from diffusion_stage.client import AsyncStageClient
from tests.fakes.pipelines import picture
from tests.stage.life.figures import show
from tests.stage.pids import wait_gone
from tests.stage.process import free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CALLERS = 12
STEP_S = 0.05


class Replica:
    """A stage that is started again on the same ports whenever it ends, until `stop`."""

    def __init__(self, serve, name):
        self._serve = serve
        self._ports = {"port": free_port(), "admin_port": free_port()}
        self._name = name
        self._is_stopping = False
        self.exit_codes = []
        self._start()
        self._thread = threading.Thread(target=self._supervise)
        self._thread.start()

    def _start(self):
        self.stage = self._serve(num_gpus=2, name=self._name, **self._ports)

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


@pytest.fixture
def replicas(serve):
    made = [Replica(serve, f"stage-{number}") for number in range(2)]
    yield [replica.wait_ready() for replica in made]
    for replica in made:
        replica.stop()


def strike(replica, number):
    """Kills a worker, or (each third time) the stage process itself; nothing of it may stay."""
    stage = replica.stage
    pids = [stage.process.pid, *stage.workers().values()]
    if number % 3 == 2:
        stage.kill(signal.SIGKILL)
        expected = -signal.SIGKILL
    else:
        os.kill(pids[1 + number % 2], signal.SIGKILL)
        expected = 71
    assert wait_gone(pids, timeout_s=10) == []
    return expected


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


async def reap(load, replicas, *, requests, kills):
    """A portion of the requests for each death, which comes while most of it is under way."""
    portion = requests // (kills + 1)
    expected = {replica: [] for replica in replicas}
    for number, replica in zip(range(kills), itertools.cycle(replicas), strict=False):
        for each in replicas:
            await asyncio.to_thread(each.wait_ready)
        load.send(range(number * portion, (number + 1) * portion))
        await load.answers(portion // 4)
        expected[replica].append(await asyncio.to_thread(strike, replica, number))
        await load.answers(portion - portion // 4)
    load.send(range(kills * portion, requests))
    load.send([None] * CALLERS)
    return expected


async def check(replicas, *, requests, kills):
    load = Load()
    async with AsyncStageClient([replica.stage.address for replica in replicas]) as client:
        expected, *_ = await asyncio.gather(
            reap(load, replicas, requests=requests, kills=kills),
            *(load.caller(client) for _ in range(CALLERS)),
        )
    show(f"{requests} requests, {kills} deaths, attempts {dict(load.attempts)}", load.seconds)
    assert load.answered == Counter(f"{seed}" for seed in range(requests))
    assert load.attempts.total() - load.attempts[1] >= kills, "no work was under way at a death"
    for replica in replicas:
        await asyncio.to_thread(replica.wait_ready)
        assert replica.exit_codes == expected[replica]


async def test_no_request_is_lost_or_answered_twice_when_replicas_die(replicas):
    await check(replicas, requests=60, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_so_it_is_with_a_thousand_requests_and_twenty_deaths(replicas):
    await check(replicas, requests=1000, kills=20)
