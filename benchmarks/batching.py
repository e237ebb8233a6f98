"""P2, P4, P5: what step mode gives to many requests, and to one that comes or goes meanwhile."""

import asyncio
import statistics
import time
from collections.abc import Callable

from benchmarks.blocks import Pair, alternate
from benchmarks.mixed import REQUESTS
from benchmarks.processes import ICONS_MODEL, FusedLoop, StageProcess
from benchmarks.result import Result, figure, ratio
from diffusion_stage.client import AsyncStageClient
from diffusion_stage.wire.messages import Progress

STEP_MODE = ("--step-execution", "--max-num-seqs", str(len(REQUESTS)))
# Eight images each: a step then takes much longer than what surrounds it.
LARGE = {"num_images_per_prompt": 8}
LONG = {**REQUESTS[0], **LARGE, "num_inference_steps": 400}
LATE = {**REQUESTS[1], **LARGE}
WARM_UP = 2


def run(blocks: int) -> list[Result]:
    """Both stages and the bare loop stay up; only one of them works at a time."""
    with StageProcess(ICONS_MODEL, *STEP_MODE, threads=None) as stage, FusedLoop() as bare:
        together = lambda: asyncio.run(_together(stage.address))  # noqa: E731
        one_by_one = lambda: asyncio.run(_one_by_one(stage.address))  # noqa: E731
        alternate(together, bare.run, blocks=WARM_UP)
        serial = alternate(one_by_one, together, blocks=blocks)
        limit = [
            Pair(ours=pair.baseline, baseline=pair.ours)
            for pair in alternate(together, bare.run, blocks=blocks)
        ]
        joined = [asyncio.run(_steps_until_joined(stage.address)) for _ in range(blocks)]
    with StageProcess(ICONS_MODEL, "--step-execution", threads=None) as stage:
        freed = [asyncio.run(_steps_until_free(stage.address)) for _ in range(blocks)]
    return [
        ratio(
            "P2.t1_serial",
            "8 mixed requests one at a time ÷ all at once, in step mode (aim: at least 2.2)",
            serial,
            baseline=lambda seconds: f"all at once {seconds:.2f} s",
            limit=2.2,
        ),
        ratio(
            "P2.t1_limit",
            "bare fused loop of the same batches ÷ through the stage (aim: at least 0.85)",
            limit,
            baseline=lambda seconds: f"through the stage {seconds:.2f} s",
            limit=0.85,
        ),
        _steps("P4.t1", "a late arrival to the end of its first step", joined, limit=2),
        _steps("P5.t1", "an abort to the start of the request that waited", freed, limit=1.5),
    ]


async def _together(address: str) -> float:
    async with AsyncStageClient(address) as client:
        await client.status()  # connected
        start = time.perf_counter()
        await asyncio.gather(*(client.generate(**each) for each in REQUESTS))
        return time.perf_counter() - start


async def _one_by_one(address: str) -> float:
    async with AsyncStageClient(address) as client:
        await client.status()
        start = time.perf_counter()
        for each in REQUESTS:
            await client.generate(**each)
        return time.perf_counter() - start


class _Running:
    """A long request under way; `times` are when its steps were heard of."""

    def __init__(self, client: AsyncStageClient) -> None:
        self.times: list[float] = []
        self._stepped = asyncio.Event()
        self._task = asyncio.create_task(client.generate(**LONG, on_progress=self._note))

    def _note(self, _progress: Progress) -> None:
        self.times.append(time.perf_counter())
        self._stepped.set()

    async def at_step(self, step: int) -> None:
        while len(self.times) < step:
            self._stepped.clear()
            await self._stepped.wait()

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def step_s(self) -> float:
        pauses = [b - a for a, b in zip(self.times[5:], self.times[6:], strict=False)]
        return statistics.median(pauses)


async def _first_step(client: AsyncStageClient, before: Callable[[], None]) -> float:
    """When the first step of a new request was heard of; `before` is called as it is sent."""
    before()
    async for event in client.stream(**LATE):
        if isinstance(event, Progress) and event.step:
            return time.perf_counter()
    raise AssertionError("a request without steps")


async def _steps_until_joined(address: str) -> float:
    """Steps that the running request takes until the late one has taken its first."""
    async with AsyncStageClient(address) as client:
        running = _Running(client)
        await running.at_step(12)
        sent: list[float] = []
        first = await _first_step(client, lambda: sent.append(time.perf_counter()))
        await running.cancel()
        return float(sum(sent[0] < at <= first for at in running.times))


async def _steps_until_free(address: str) -> float:
    """In steps of the aborted request: until the next one's first step, without that step."""
    async with AsyncStageClient(address) as client:
        running = _Running(client)
        await running.at_step(12)
        waiting = asyncio.create_task(_first_step(client, lambda: None))
        await running.at_step(len(running.times) + 5)
        aborted_at = time.perf_counter()
        await running.cancel()
        return (await waiting - aborted_at) / running.step_s - 1


def _steps(benchmark: str, name: str, figures: list[float], *, limit: float) -> Result:
    baseline = "steps of the running request"
    return figure(benchmark, name, figures, unit="steps", baseline=baseline, limit=limit)
