"""What is wrong with the claims that a stage's pods mount, before pods fail over it (pure)."""

from collections.abc import Mapping

from diffusion_operator.api import Stage
from diffusion_operator.desired.model import model_claim
from diffusion_operator.manifest import Manifest
from diffusion_operator.situation import Obstacle

ONE_POD, ONE_NODE = "ReadWriteOncePod", "ReadWriteOnce"
ADVICE = "use ReadOnlyMany, ReadWriteMany or a volumeClaimTemplate"


def claim_names(stage: Stage) -> list[str]:
    """Of the claims that exist before the stage and that all its replicas share."""
    cache = stage.spec.model.cache
    shared = None if cache is None else cache.persistent_volume_claim
    names = [model_claim(stage.spec.model), None if shared is None else shared.claim_name]
    return [name for name in dict.fromkeys(names) if name is not None]


def claim_warning(stage: Stage, claims: Mapping[str, Manifest | None]) -> Obstacle | None:
    """`claims` by name, None where there is none. Only a warning: one node may be all there is."""
    for name, claim in claims.items():
        if claim is None:
            message = f"there is no PersistentVolumeClaim {name}; make it, or name another"
            return Obstacle("ModelClaimMissing", message, is_final=False)
    if stage.spec.replicas < 2:
        return None
    for name, claim in claims.items():
        modes = set((claim or {}).get("spec", {}).get("accessModes", []))
        if modes == {ONE_POD}:
            who = "one pod alone"
        elif modes and modes <= {ONE_POD, ONE_NODE}:
            who = "the pods of one node"
        else:
            continue
        text = f"PersistentVolumeClaim {name} ({', '.join(sorted(modes))}) can be used by {who}"
        replicas = f"the stage has {stage.spec.replicas} replicas"
        return Obstacle("ModelCacheConflict", f"{text}; {replicas}: {ADVICE}", is_final=False)
    return None
