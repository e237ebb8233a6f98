"""P10: whether memory grows with the number of requests."""

import asyncio
import itertools
from typing import Any

from benchmarks.processes import ICONS_MODEL, StageProcess
from benchmarks.result import Result, figure
from diffusion_stage.client import AsyncStageClient

REQUESTS = 1000
AT_ONCE = 4
MEGABYTE = 1e6
ARGUMENTS: dict[str, Any] = {
    "prompt": "a red circle",
    "height": 64,
    "width": 64,
    "num_inference_steps": 1,
}


def run(blocks: int) -> list[Result]:
    """The first thousand fill caches and pools, and count for nothing."""
    with StageProcess(ICONS_MODEL) as stage:
        sizes = []
        for _ in range(blocks + 1):
            asyncio.run(_ask(stage.address))
            sizes.append(stage.proportional_bytes() / MEGABYTE)
    return [
        figure(
            "P10.growth",
            f"growth of PSS in {REQUESTS} requests",
            [after - before for before, after in itertools.pairwise(sizes)],
            unit="MB",
            baseline=f"{sizes[0]:.0f} MB after the first {REQUESTS}",
            limit=1,
        )
    ]


async def _ask(address: str) -> None:
    async with AsyncStageClient(address) as client:
        left = iter(range(REQUESTS))

        async def caller() -> None:
            for seed in left:
                await client.generate(seed=seed, **ARGUMENTS)

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
