"""The program of `helm test`: one stage from its manifest to a death that the status tells of.

It runs in the operator's image and gets its order, rendered by the chart, as a JSON file. It makes
one stage, in its own namespace, and belongs to it: the stage goes with this pod in any case.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from diffusion_operator.api import API_VERSION, KIND
from diffusion_operator.cluster import Cluster, connect
from diffusion_stage.client import AsyncStageClient
from diffusion_stage.errors import RequestError

POLL_S = 0.5
CLEAN_UP_S = 30  # of the time for all
DEATH_S = 60
FINAL = ("ApplyRefused", "ConfigInvalid", "ModelUnavailable", "PodTemplateRejected")

T = TypeVar("T")

logger = logging.getLogger("helm test")


class CheckError(Exception):
    """The installation does not do what it should; the text says what it did."""


class Stage:
    """The one stage of this test, from `make` to `remove`."""

    def __init__(self, cluster: Cluster, spec: dict) -> None:
        self._cluster = cluster
        self._made = None
        self.name = f"helm-test-{secrets.token_hex(3)}"
        self.namespace = os.environ["POD_NAMESPACE"]
        pod = {"name": os.environ["POD_NAME"], "uid": os.environ["POD_UID"]}
        metadata = {
            "name": self.name,
            "namespace": self.namespace,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", **pod}],
        }
        self._manifest = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": spec,
        }

    @property
    def address(self) -> str:
        return f"tcp://{self.name}.{self.namespace}.svc:5555"

    async def make(self) -> None:
        self._made = await self._cluster.apply(self._manifest)

    async def status(self) -> dict:
        found = await self._cluster.get(API_VERSION, KIND, self.namespace, self.name)
        if found is None:
            raise CheckError(f"somebody deleted the stage {self.name}")
        return found.get("status", {})

    async def remove(self) -> None:
        if self._made is None:
            return
        await self._cluster.delete(self._made)
        await until(self._is_gone)

    async def failure(self) -> dict | None:
        """The last death that the status tells of."""
        return (await self.status()).get("lastFailure")

    async def _is_gone(self) -> bool:
        return not await self._cluster.get(API_VERSION, KIND, self.namespace, self.name)


async def check(stage: Stage, order: dict) -> None:
    """All steps; raises `CheckError` at the first that is not as it should be."""
    await stage.make()
    logger.info("made the stage %s", stage.name)
    await await_ready(stage)
    async with AsyncStageClient(stage.address) as client:
        await generate(client, order)
        await kill(client)
    failure = await await_death(stage)
    logger.info(
        "the status tells of the death: %s, exit %s", failure["reason"], failure["exitCode"]
    )
    if failure["reason"] != "WorkerDied":
        raise CheckError(f"lastFailure.reason is {failure['reason']!r} instead of 'WorkerDied'")


async def await_ready(stage: Stage) -> None:
    started = time.monotonic()
    said = None
    while True:
        conditions = {one["type"]: one for one in (await stage.status()).get("conditions", [])}
        ready = conditions.get("Ready", {"status": "", "reason": "", "message": "no status yet"})
        if ready["status"] == "True":
            logger.info("Ready after %.0f s", time.monotonic() - started)
            return
        told = f"{ready['reason']}: {ready['message']}"
        if told != said:
            logger.info("not Ready: %s", told)
            said = told
        if ready["reason"] in FINAL:
            raise CheckError(f"the stage will not get Ready: {told}")
        await asyncio.sleep(POLL_S)


async def generate(client: AsyncStageClient, order: dict) -> None:
    try:
        generation = await client.generate(order["prompt"], seed=1, **order["request"])
    except RequestError as error:
        raise CheckError(f"no image: {type(error).__name__}: {error}") from error
    sizes = [image.size for image in generation.images]
    if not sizes:
        raise CheckError("the answer has no image")
    logger.info("%r became an image of %s", order["prompt"], sizes[0])


async def kill(client: AsyncStageClient) -> None:
    """The call has no answer, for who should give it is dead."""
    with contextlib.suppress(RequestError):
        await client.control("collective_rpc", call="die")
        raise CheckError("the worker answered instead of dying")
    logger.info("killed the worker")


async def await_death(stage: Stage) -> dict:
    try:
        async with asyncio.timeout(DEATH_S):
            return await until(stage.failure)
    except TimeoutError:
        raise CheckError(f"no lastFailure in the status within {DEATH_S} s") from None


async def until(ask: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is true; for how long to ask is up to the caller."""
    while True:
        if answer := await ask():
            return answer
        await asyncio.sleep(POLL_S)


async def run(order: dict) -> None:
    client = await connect()
    stage = Stage(Cluster(client), order["spec"])
    try:
        async with asyncio.timeout(order["timeoutSeconds"] - CLEAN_UP_S):
            await check(stage, order)
    except TimeoutError:
        raise CheckError(f"not done within {order['timeoutSeconds'] - CLEAN_UP_S} s") from None
    finally:
        async with asyncio.timeout(CLEAN_UP_S):
            await stage.remove()
        await client.close()
    logger.info("removed the stage; all is well")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
    except CheckError as error:
        logger.error("FAILED: %s", error)  # noqa: TRY400  # the text says all
        sys.exit(1)
