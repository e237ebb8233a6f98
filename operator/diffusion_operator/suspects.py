"""Nodes that pods were taken away from: labelled for a time, so that new pods prefer others."""

import asyncio
import logging
from datetime import UTC, datetime

from diffusion_operator.api import SUSPECT_LABEL
from diffusion_operator.cluster import Cluster
from diffusion_operator.errors import ApiError, RefusedError
from diffusion_operator.manifest import Manifest

RELEASE_EVERY_S = 30.0

logger = logging.getLogger(__name__)


class Suspects:
    """The label's value is when it was put there, in seconds since the epoch.

    So nothing is remembered here. All methods but `run` raise `ApiError`, or `RefusedError`.
    """

    def __init__(self, cluster: Cluster, *, lifetime_s: float) -> None:
        self._cluster = cluster
        self._lifetime_s = lifetime_s

    async def run(self) -> None:
        """Release again and again, until cancelled; a failure waits for the next time."""
        while True:
            try:
                await self.release()
            except (ApiError, RefusedError) as error:
                logger.warning("suspect nodes stay: %s", error)
            await asyncio.sleep(RELEASE_EVERY_S)

    async def mark(self, node: str) -> None:
        """Again is for the whole time again."""
        await self._cluster.apply(_labelled(node, {SUSPECT_LABEL: str(_now_s())}))
        logger.warning("node %s is suspect for %.0f s", node, self._lifetime_s)

    async def release(self) -> None:
        """Take the label from nodes that had it for the whole time."""
        for node in await self._cluster.list("v1", "Node", None, SUSPECT_LABEL):
            since = node["metadata"]["labels"][SUSPECT_LABEL]
            if since.isdigit() and _now_s() - int(since) >= self._lifetime_s:
                await self._cluster.apply(_labelled(node["metadata"]["name"], {}))
                logger.info("node %s is no longer suspect", node["metadata"]["name"])

    async def has_lost(self, node: str) -> bool:
        """Whether the node is gone, or has not been heard of."""
        found = await self._cluster.get("v1", "Node", None, node)
        states = {} if found is None else found.get("status", {})
        ready = [one["status"] for one in states.get("conditions", []) if one["type"] == "Ready"]
        return ready != ["True"]


def _labelled(node: str, labels: dict[str, str]) -> Manifest:
    """For server-side apply: what we applied before and leave out now is removed."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}


def _now_s() -> int:
    return int(datetime.now(UTC).timestamp())
