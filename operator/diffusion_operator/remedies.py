"""Carrying out what `remediation` decides, and posting Events of it."""

import logging
from datetime import datetime

from diffusion_operator.api import Stage
from diffusion_operator.cluster import Cluster
from diffusion_operator.errors import RefusedError
from diffusion_operator.events import replacement_event
from diffusion_operator.manifest import Manifest
from diffusion_operator.observe import Observation, Replica
from diffusion_operator.remediation import Replacement, replacements
from diffusion_operator.suspects import Suspects

logger = logging.getLogger(__name__)


async def post(cluster: Cluster, event: Manifest) -> None:
    """An Event that is refused, as in a namespace that goes, must not keep the status away."""
    try:
        await cluster.create(event)
    except RefusedError as error:
        logger.warning("%s: not posted: %s", event["metadata"]["name"], error)


class Remedies:
    """Without `suspects` the operator has no right to nodes, and leaves them alone."""

    def __init__(self, cluster: Cluster, suspects: Suspects | None) -> None:
        self._cluster = cluster
        self._suspects = suspects

    async def apply(
        self, stage: Stage, observation: Observation, status: Manifest, now: datetime
    ) -> None:
        """After the status was written, so that each death counts; again if cut short.

        Raises `ApiError`.
        """
        policy = stage.spec.failure_policy
        for replacement in replacements(observation, status["restarts"], policy):
            await self._replace(stage, replacement, now)
        for replica in observation.replicas:
            if replica.lost_node:
                await self._let_go(stage, replica)

    async def _replace(self, stage: Stage, replacement: Replacement, now: datetime) -> None:
        await post(self._cluster, replacement_event(stage, replacement, now))
        replica = replacement.replica
        if self._suspects is not None:
            await self._suspects.mark(replica.node)
        logger.warning(
            "%s: deleting %s after %d deaths on %s",
            *(stage, replica.pod, replacement.deaths, replica.node),
        )
        await self._cluster.delete(_pod(stage, replica))

    async def _let_go(self, stage: Stage, replica: Replica) -> None:
        """The kubelet that should end it is gone; the StatefulSet waits for the name.

        Not where each replica has a claim of its own: two pods might write to it.
        """
        cache = stage.spec.model.cache
        has_claim = cache is not None and cache.volume_claim_template is not None
        if self._suspects is None or has_claim or not await self._suspects.has_lost(replica.node):
            return
        logger.warning("%s: %s is lost with its node", stage, replica.pod)
        await self._cluster.delete(_pod(stage, replica), grace_s=0)


def _pod(stage: Stage, replica: Replica) -> Manifest:
    metadata = {"namespace": stage.namespace, "name": replica.pod, "uid": replica.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
