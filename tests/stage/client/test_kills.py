"""Done-when 3 of the first issue, in small: replicas die, no request is lost or answered twice."""

import asyncio
import random
from collections import Counter

import numpy as np

from tests.fakes.stage import pixels

REQUESTS = 200
CALLERS = 24
KILLS = 20
LONGEST = 30  # turns of the event loop


class Reaper:
    """Kills the stage that got a request, now and then, and starts it again."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.kills = 0

    async def script(self, task):
        task.accept()
        for step in range(self.chance.randrange(LONGEST)):
            task.progress(step + 1, LONGEST)
            await asyncio.sleep(0)
        if self.kills < KILLS and self.chance.random() < 0.2:
            self.kills += 1
            task.stage.die()
            task.stage.start()
            return
        task.result()


async def test_no_request_is_lost_or_answered_twice_when_replicas_are_killed(clients, stages):
    reaper = Reaper(seed=3)
    for each in stages:
        each.script = reaper.script
    numbers = iter(range(REQUESTS))
    answered = Counter()

    async def caller():
        for number in numbers:
            generation = await clients.generate("a", seed=number, request_id=f"request-{number}")
            (image,) = generation.images
            np.testing.assert_array_equal(np.asarray(image), pixels(number)[0])
            answered[generation.request_id] += 1

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    assert reaper.kills == KILLS
    assert answered == Counter(f"request-{number}" for number in range(REQUESTS))
