"""The trained model under everything at once: aborts, clients that vanish, and deaths.

Two replicas of two workers each. Every request that is neither aborted nor left alone is answered
once, with its own picture, and nothing of any is kept.
"""

import asyncio
import itertools
import random
from collections import Counter

import numpy as np
import pytest
import torch

from diffusion_stage.client import AsyncStageClient
from tests.stage.life.figures import show
from tests.stage.life.test_replicas import Replica, strike

pytestmark = [pytest.mark.process, pytest.mark.timeout(3600)]

MODES = {
    "request": {},
    "step": {"step_execution": True, "max_num_seqs": 4},
}
THINGS = ["heart", "star", "tree", "moon", "cat", "house", "key", "crown"]
COLOURS = ["red", "blue", "green", "yellow"]
JOBS = list(itertools.product(THINGS, COLOURS))
CLOSE = {"request": 0, "step": 2}  # of 255: batches round differently
CALLERS = 12
ABORTED, DISCONNECTED = 0.10, 0.05


def params(number):
    thing, colour = JOBS[number % len(JOBS)]
    return {
        "prompt": f"a large {colour} {thing} on a white background",
        "seed": number % len(JOBS),
        "height": 64,
        "width": 64,
        "num_inference_steps": 3 + number % len(JOBS) % 4,
        "guidance_scale": 2.0,
    }


@pytest.fixture(scope="module")
def expected(runner):
    """The picture of each job, drawn alone."""
    pictures = []
    for number in range(len(JOBS)):
        given = params(number)
        generator = torch.Generator("cpu").manual_seed(given.pop("seed"))
        made = runner.pipe(**given, generator=generator).images[0]
        pictures.append(np.asarray(made).astype(int))
    return pictures


class Soak:
    """`left`: requests that nobody has begun; each fate is counted once."""

    def __init__(self, replicas, expected, close, requests):
        self.replicas = replicas
        self.fates = Counter()
        self.wrong = []
        self._ended = asyncio.Event()
        self.left = iter(range(requests))
        self._expected, self._close = expected, close
        self._chance = random.Random(0)

    async def caller(self, client):
        for number in self.left:
            fate = self._chance.random()
            if fate < ABORTED:
                await self._abort(client, number)
            elif fate < ABORTED + DISCONNECTED:
                await asyncio.to_thread(self._vanish, number)
            else:
                await self._answer(client, number)
            self._ended.set()

    async def _answer(self, client, number):
        made = await client.generate(
            **params(number), request_id=f"request {number}", timeout_s=300
        )
        assert made.request_id == f"request {number}"
        off = np.abs(np.asarray(made.images[0]).astype(int) - self._expected[number % len(JOBS)])
        if off.max() > self._close:
            self.wrong.append((number, int(off.max())))
        self.fates["answered"] += 1

    async def _abort(self, client, number):
        task = asyncio.create_task(client.generate(**params(number), timeout_s=300))
        await asyncio.sleep(self._chance.random() * 0.3)
        task.cancel()
        await asyncio.wait([task])
        self.fates["aborted"] += 1

    def _vanish(self, number):
        """A client that closes its connection without a word."""
        stage = self._chance.choice(self.replicas).stage
        with stage.client() as client:
            client.submit(f"vanished {number}", **params(number))
        self.fates["vanished"] += 1

    async def reap(self, kills, requests):
        """Deaths spread over the work, of one replica and the other in turn."""
        for number, replica in zip(range(kills), itertools.cycle(self.replicas), strict=False):
            while self.fates.total() < (number + 0.5) * requests / kills:
                await self._ended.wait()
                self._ended.clear()
            await asyncio.to_thread(replica.wait_ready)
            await asyncio.to_thread(strike, replica, number)


async def soak(serve, icons_model, expected, mode, *, requests, kills):
    def start(**flags):
        return serve(None, model=icons_model, **MODES[mode], **flags)

    replicas = [Replica(start, f"stage-{number}") for number in range(2)]
    try:
        for replica in replicas:
            await asyncio.to_thread(replica.wait_ready)
        story = Soak(replicas, expected, CLOSE[mode], requests)
        async with AsyncStageClient([each.stage.address for each in replicas]) as client:
            await asyncio.gather(
                story.reap(kills, requests), *(story.caller(client) for _ in range(CALLERS))
            )
        for replica in replicas:
            await asyncio.to_thread(replica.wait_ready)
            await asyncio.to_thread(replica.stage.wait_idle)
            workers = replica.stage.status["workers"]
            assert [each["busy_since"] for each in workers] == [None, None]
    finally:
        for replica in replicas:
            await asyncio.to_thread(replica.stop)
    show(f"{mode}: {requests} requests, {kills} deaths, {dict(story.fates)}", [0.0])
    assert story.fates.total() == requests
    assert story.wrong == []


@pytest.mark.parametrize("mode", [pytest.param("request", marks=pytest.mark.slow), "step"])
async def test_everything_at_once_for_a_while(serve, icons_model, expected, mode):
    await soak(serve, icons_model, expected, mode, requests=30, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_everything_at_once_for_long(serve, icons_model, expected, mode):
    await soak(serve, icons_model, expected, mode, requests=2000, kills=20)
