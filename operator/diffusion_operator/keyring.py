"""The CURVE keys of one stage: made once, published before they are used, removed after.

Secrets can be made and deleted, never read: the operator has no right to. What it knows of a key
is its public half, in the ConfigMap. A Secret is made before its public half is published, so a
crash in between leaves one that nobody knows, which Kubernetes collects with the stage.
"""

import logging

import zmq

from diffusion_operator.api import Stage
from diffusion_operator.cluster import Cluster
from diffusion_operator.desired import curve
from diffusion_operator.manifest import Manifest

logger = logging.getLogger(__name__)


class Keyring:
    """Of one stage, in one pass."""

    def __init__(self, cluster: Cluster, stage: Stage, config_map: Manifest | None) -> None:
        self._cluster = cluster
        self._stage = stage
        self._keys = curve.published(config_map or {})

    @property
    def keys(self) -> curve.PublicKeys:
        """Of all generations that there are."""
        return self._keys

    async def make(self) -> None:
        """The key in use and the next, where they are missing. Raises `ApiError`."""
        if self._stage.spec.curve is not None:
            for generation in curve.generations(self._stage.spec.curve):
                if generation not in self._keys:
                    self._keys[generation] = await self._make()

    async def retire(self) -> bool:
        """Remove keys of earlier generations, which no pod may have; whether there were any.

        Raises `ApiError`.
        """
        wanted = self._stage.spec.curve
        needed = () if wanted is None else curve.generations(wanted)
        old = [generation for generation in self._keys if generation not in needed]
        for generation in old:
            await self._cluster.delete(curve.secret(self._stage, self._keys.pop(generation), ""))
            logger.info("%s: retired key %d", self._stage, generation)
        return bool(old)

    async def _make(self) -> str:
        public_key, secret_key = (half.decode() for half in zmq.curve_keypair())
        await self._cluster.create(curve.secret(self._stage, public_key, secret_key))
        logger.info("%s: made a key", self._stage)
        return public_key
