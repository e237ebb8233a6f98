"""What the operator does about deaths, beyond what the kubelet does: decided here (pure)."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import FailurePolicy, Stage
from diffusion_operator.budget import exhausted
from diffusion_operator.manifest import TIME, Manifest
from diffusion_operator.observe import Observation, Replica

# Deaths that another node may spare the replica; a bad spec or model dies anywhere.
OF_THE_PLACE = ("AcceleratorUnusable", "Hang", "Killed", "WorkerDied")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A pod that is to be deleted, so that the StatefulSet makes it anew, maybe elsewhere."""

    replica: Replica
    deaths: int


def replacements(
    observation: Observation, restarts: Manifest, policy: FailurePolicy
) -> list[Replacement]:
    """The pods that died often enough where they are."""
    limit = policy.replace_pod_after_restarts
    deaths = Counter(
        entry.get("podUID") for entry in restarts["recent"] if entry["reason"] in OF_THE_PLACE
    )
    return [
        Replacement(replica, deaths[replica.uid])
        for replica in observation.replicas
        if 0 < limit <= deaths[replica.uid] and not replica.is_leaving
    ]


def next_hold(stage: Stage, restarts: Manifest, old: Manifest, now: datetime) -> Manifest | None:
    """`status.hold`: set once every replica has used up its budget, kept while the spec stands."""
    policy = stage.spec.failure_policy
    if stage.is_held:
        held: Manifest = old["hold"]
        return held
    if policy.on_budget_exhausted != "Hold" or stage.pods == 0:
        return None
    names = {f"{stage.name}-{ordinal}" for ordinal in range(stage.pods)}
    if not names <= set(exhausted(restarts, policy=policy, now=now)):
        return None
    return {"generation": stage.generation, "since": now.strftime(TIME)}
