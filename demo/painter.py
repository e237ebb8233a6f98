"""Runs in the client pod: sends the requests that its argument lists, and tells what comes back.

The argument is JSON: {"address", "params", "requests": [{"id", "prompt", "seed"}]}, all sent at
once; or with "prompts" and "at_once" in place of "requests": so many under way at any time, until
the input ends. With "about_stages" it tells of workers and batches, too. Each line of output is a
JSON object with an `event` and its time `at` (seconds since the epoch).
"""

import asyncio
import base64
import io
import itertools
import json
import logging
import os
import sys
import time
from typing import Any

from diffusion_stage.client import AsyncStageClient, CurveKeys, Generation
from diffusion_stage.errors import RequestError


def tell(event: str, **about: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **about}), flush=True)


class Failures(logging.Handler):
    """Tells when the client's attempts at a replica fail, as its log does."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("failure", message=record.getMessage())


def png(generation: Generation) -> str:
    buffer = io.BytesIO()
    generation.images[0].save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode()


async def paint(client: AsyncStageClient, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Every event of one request; its `done` events are counted by who reads this."""
    about = {"id": request["id"]}
    tell("sent", **about)
    try:
        events = client.stream(request["prompt"], seed=request["seed"], timeout_s=180, **params)
        async for event in events:
            if isinstance(event, Generation):
                tell(
                    "done",
                    png=png(event),
                    replica=event.replica,
                    rank=event.rank,
                    attempts=event.attempts,
                    **about,
                )
            else:
                tell("progress", step=getattr(event, "step", 0), **about)
    except RequestError as error:
        tell("failed", message=f"{error.reason}: {error}", **about)


async def paint_on(client: AsyncStageClient, job: dict[str, Any]) -> None:
    """Each of `at_once` askers sends its next request when it has an answer."""
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    numbers = itertools.count(1000)

    async def ask() -> None:
        while not ended.done():
            number = next(numbers)
            prompt = job["prompts"][number % len(job["prompts"])]
            request = {"id": f"request-{number}", "prompt": prompt, "seed": number}
            await paint(client, request, job["params"])

    await asyncio.gather(*(ask() for _ in range(job["at_once"])))


async def main(job: dict[str, Any]) -> None:
    logging.getLogger("diffusion_stage.client").addHandler(Failures(logging.WARNING))
    folder = os.environ.get("DIFFUSION_STAGE_CURVE_DIR")
    keys = CurveKeys.read(folder) if folder else None
    async with AsyncStageClient(job["address"], curve=keys) as client:
        if "prompts" in job:
            await paint_on(client, job)
            return
        if "about_stages" in job:
            tell("workers", workers=await client.control("workers"))
        await asyncio.gather(*(paint(client, each, job["params"]) for each in job["requests"]))
        if "about_stages" in job:
            status = await client.control("status")
            tell("batches", batches={name: each["batches"] for name, each in status.items()})


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
