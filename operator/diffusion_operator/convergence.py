"""Make the children of a stage what they should be: apply what differs, delete what is too much."""

import logging
from dataclasses import dataclass

from diffusion_operator.api import KIND, STAGE_LABEL, Stage
from diffusion_operator.cluster import Cluster
from diffusion_operator.desired import curve, desired_state
from diffusion_operator.errors import ApiError, DroppedError, RefusedError, TemplateError
from diffusion_operator.keyring import Keyring
from diffusion_operator.manifest import Ident, Manifest, controller, ident
from diffusion_operator.memory import Memory
from diffusion_operator.observe import is_rolled_out
from diffusion_operator.situation import Obstacle

OWNED_KINDS = (
    ("apps/v1", "StatefulSet"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
)

RARE_KINDS = {"ConfigMap", "NetworkPolicy", "ServiceAccount"}
NAMED_BY_PODS = ("ConfigMap", "ServiceAccount")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it."""

    workload: Manifest | None
    """The StatefulSet as it is now."""
    obstacle: Obstacle | None
    """The first thing that did not go through."""


class Convergence:
    """One pass over the children of one stage.

    A refused child does not keep the others from being applied. Raises `ApiError` when the API
    server cannot be reached.
    """

    def __init__(self, cluster: Cluster, stage: Stage, memory: Memory) -> None:
        self._cluster = cluster
        self._stage = stage
        self._memory = memory
        self._live: dict[Ident, Manifest] = {}
        self._obstacles: list[Obstacle] = []

    async def run(self) -> Outcome:
        """Read, apply, prune."""
        await self._read()
        public = Ident("ConfigMap", curve.map_name(self._stage))
        keyring = Keyring(self._cluster, self._stage, self._live.get(public))
        try:
            await keyring.make()
            desired = desired_state(self._stage, keyring.keys)
        except TemplateError as error:
            self._obstacles.append(Obstacle("PodTemplateRejected", str(error), is_final=True))
        except RefusedError as error:
            self._obstacles.append(Obstacle("ApplyRefused", str(error), is_final=True))
        else:
            await self._converge(desired, keyring)
        return Outcome(self._workload, next(iter(self._obstacles), None))

    @property
    def _workload(self) -> Manifest | None:
        return self._live.get(Ident("StatefulSet", self._stage.name))

    async def _read(self) -> None:
        """A fresh stage spares most requests: whatever has a wanted name is found when applied."""
        if self._stage.is_fresh and self._stage.spec.curve is None:
            return
        label = f"{STAGE_LABEL}={self._stage.name}"
        for api_version, kind in OWNED_KINDS:
            if kind in self._memory.absent:
                continue
            found = await self._cluster.list(api_version, kind, self._stage.namespace, label)
            self._live |= {ident(child): child for child in found}

    async def _converge(self, desired: list[Manifest], keyring: Keyring) -> None:
        for manifest in desired:
            await self._apply(manifest)
        wanted = {ident(manifest) for manifest in desired}
        kinds = {one.kind for one in (*wanted, *self._live)}
        self._memory.absent = RARE_KINDS - kinds
        if self._obstacles or not is_rolled_out(self._workload):
            # A pod of the former template that is made once more needs what that one names.
            wanted |= {one for one in self._live if one.kind in NAMED_BY_PODS}
        elif await keyring.retire() and self._stage.spec.curve is not None:
            await self._apply(curve.config_map(self._stage, self._stage.spec.curve, keyring.keys))
        await self._prune(wanted)

    async def _apply(self, manifest: Manifest) -> None:
        try:
            answer = await self._settle(manifest)
        except RefusedError as error:
            self._obstacles.append(_obstacle(error))
        except ApiError as error:
            self._postpone(error)
        else:
            self._live[ident(manifest)] = answer

    async def _settle(self, manifest: Manifest) -> Manifest:
        live = self._live.get(ident(manifest)) or await self._find(manifest)
        if live is not None:
            _refuse_others(live, self._stage)
            if "deletionTimestamp" in live["metadata"] or self._memory.is_settled(manifest, live):
                return live  # what is being deleted is made anew once it is gone
        await self._refuse_empty_volumes(manifest)
        answer = await self._cluster.apply(manifest)
        self._memory.remember(manifest, answer)
        logger.info("%s: applied %s %s", self._stage, *ident(answer))
        return answer

    async def _refuse_empty_volumes(self, manifest: Manifest) -> None:
        """Where image volumes are switched off, the API server makes empty folders of them."""
        wanted = _image_volumes(manifest)
        if not wanted:
            return
        taken = _image_volumes(await self._cluster.apply(manifest, dry_run=True))
        if dropped := wanted - taken:
            names = ", ".join(sorted(dropped))
            raise DroppedError(
                f"this cluster has no image volumes (here {names}): "
                "they need Kubernetes 1.35, or the feature gate ImageVolume"
            )

    async def _find(self, manifest: Manifest) -> Manifest | None:
        """An object of that name without our label, which an apply would take over unseen."""
        name, namespace = manifest["metadata"]["name"], self._stage.namespace
        return await self._cluster.get(manifest["apiVersion"], manifest["kind"], namespace, name)

    async def _prune(self, wanted: set[Ident]) -> None:
        for key, child in self._live.items():
            owner = controller(child)
            if key in wanted or owner is None or owner["uid"] != self._stage.uid:
                continue
            try:
                await self._cluster.delete(child)
            except ApiError as error:
                self._postpone(error)

    def _postpone(self, error: ApiError) -> None:
        if error.status == 0:
            raise error  # no answer: a status could not be written either
        self._obstacles.append(Obstacle("ApplyFailed", str(error), is_final=False))


def _image_volumes(manifest: Manifest) -> set[str]:
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return {volume["name"] for volume in pod.get("volumes", []) if "image" in volume}


def _obstacle(error: RefusedError) -> Obstacle:
    if isinstance(error, DroppedError):
        return Obstacle("ImageVolumesUnsupported", str(error), is_final=True)
    is_template = "spec.template" in str(error)
    reason = "PodTemplateRejected" if is_template else "ApplyRefused"
    return Obstacle(reason, str(error), is_final=True)


def _refuse_others(live: Manifest, stage: Stage) -> None:
    """An orphan with our label, or a child of an earlier stage of this name, may be taken over."""
    owner = controller(live)
    if owner is None:
        is_ours = live["metadata"].get("labels", {}).get(STAGE_LABEL) == stage.name
        belongs = "was not made for this stage"
    else:
        is_ours = owner["uid"] == stage.uid or (owner["kind"], owner["name"]) == (KIND, stage.name)
        belongs = f"belongs to {owner['kind']} {owner['name']}"
    if not is_ours:
        kind, name = ident(live)
        raise RefusedError(f"{kind} {name} exists and {belongs}; rename one of the two")
