"""Two replicas, of which one or the other dies under load and is started again, as in a cluster."""

import asyncio
import itertools
import os
import signal
from collections import Counter

import pytest

from diffusion_stage.client import AsyncStageClient
from tests.stage.life.figures import show
from tests.stage.life.replicas import CALLERS, Load, Replica
from tests.stage.pids import wait_gone

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


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
