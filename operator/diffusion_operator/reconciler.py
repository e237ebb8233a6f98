"""One level-triggered pass over one stage: read, decide, apply, prune, report."""

import logging
from datetime import UTC, datetime

from pydantic import ValidationError

from diffusion_operator.api import API_VERSION, KIND, STAGE_LABEL, Stage
from diffusion_operator.budget import uncounted
from diffusion_operator.claims import claim_names, claim_warning
from diffusion_operator.cluster import Cluster
from diffusion_operator.convergence import Convergence, Outcome
from diffusion_operator.errors import ApiError
from diffusion_operator.events import condition_events, death_event
from diffusion_operator.failures import failures
from diffusion_operator.manifest import Manifest
from diffusion_operator.memory import Memory
from diffusion_operator.metrics import Metrics
from diffusion_operator.observe import Observation, observe
from diffusion_operator.remedies import Remedies, post
from diffusion_operator.situation import Obstacle
from diffusion_operator.status import Pass, compute_status, unreadable
from diffusion_operator.workqueue import Key

logger = logging.getLogger(__name__)


class Reconciler:
    """Called with a key; returns the seconds after which to call again, None once it is gone."""

    def __init__(
        self, cluster: Cluster, *, remedies: Remedies, metrics: Metrics, resync_s: float
    ) -> None:
        self._cluster = cluster
        self._remedies = remedies
        self._metrics = metrics
        self._resync_s = resync_s
        self._memories: dict[Key, Memory] = {}

    async def __call__(self, key: Key) -> float | None:
        """Raises `ApiError` when the pass should be repeated soon."""
        raw = await self._cluster.get(API_VERSION, KIND, key.namespace, key.name)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            self._memories.pop(key, None)
            self._metrics.forget_stage(key.namespace, key.name)
            return None  # Kubernetes collects what the stage owns
        try:
            stage = Stage.parse(raw)
        except ValidationError as error:
            await self._report_unreadable(raw, error)
            return self._resync_s
        memory = self._memories.setdefault(key, Memory())
        outcome = await Convergence(self._cluster, stage, memory).run()
        await self._observe(stage, raw, outcome)
        if outcome.obstacle is not None and not outcome.obstacle.is_final:
            raise ApiError(outcome.obstacle.message, status=0)
        return self._resync_s

    async def _observe(self, stage: Stage, raw: Manifest, outcome: Outcome) -> None:
        pods = await self._pods(stage)
        observation = observe(stage.name, outcome.workload, pods)
        found = Pass(
            observation=observation,
            obstacle=outcome.obstacle,
            warning=await self._warning(stage, observation),
            old=raw.get("status", {}),
            now=datetime.now(UTC),
        )
        status = compute_status(stage, found)
        await self._tell(stage, found, status)
        await self._report(raw, status)
        self._metrics.set_stage(stage, status)
        await self._remedies.apply(stage, observation, status, found.now)

    async def _pods(self, stage: Stage) -> list[Manifest]:
        """None yet of a fresh stage; what its children become brings the next pass."""
        if stage.is_fresh:
            return []
        selector = f"{STAGE_LABEL}={stage.name}"
        return await self._cluster.list("v1", "Pod", stage.namespace, selector)

    async def _warning(self, stage: Stage, observation: Observation) -> Obstacle | None:
        """Claims are looked at only while they may be what keeps replicas from starting."""
        if stage.pods <= sum(one.is_ready for one in observation.replicas):
            return None
        claims = {
            name: await self._cluster.get("v1", "PersistentVolumeClaim", stage.namespace, name)
            for name in claim_names(stage)
        }
        return claim_warning(stage, claims)

    async def _tell(self, stage: Stage, found: Pass, status: Manifest) -> None:
        """Before the status: an Event posted twice is the same one, a counted death is past."""
        for failure in uncounted(failures(found.observation), found.old.get("restarts", {})):
            logger.warning("%s: %s", stage, failure.describe())
            self._metrics.count_death(stage, failure)
            await post(self._cluster, death_event(stage, failure, found.now))
        for event in condition_events(stage, found.old, status, found.now):
            await post(self._cluster, event)

    async def _report_unreadable(self, raw: Manifest, error: ValidationError) -> None:
        message = "; ".join(
            f"spec.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        )
        generation, old = raw["metadata"]["generation"], raw.get("status", {})
        await self._report(raw, unreadable(generation, message, old=old, now=datetime.now(UTC)))

    async def _report(self, raw: Manifest, status: Manifest) -> None:
        """Written only where it differs; for this very object, not a later one of its name."""
        if status != raw.get("status", {}):
            metadata = {key: raw["metadata"][key] for key in ("name", "namespace", "uid")}
            await self._cluster.apply_status(
                {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}
            )
