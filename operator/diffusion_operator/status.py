"""What the status should say: a pure function of the spec and of what was observed."""

from dataclasses import dataclass
from datetime import datetime

from diffusion_operator.api import Stage
from diffusion_operator.budget import count, exhausted, forgive
from diffusion_operator.conditions import Verdict, conditions
from diffusion_operator.failures import Failure, failures
from diffusion_operator.manifest import Manifest
from diffusion_operator.observe import Observation, Replica
from diffusion_operator.remediation import next_hold
from diffusion_operator.replicas import replica_statuses
from diffusion_operator.situation import Obstacle, Situation
from diffusion_operator.verdicts import unknown_spec, verdicts

ENDPOINTS = 256  # the CRD's limit
PRINTED = ("reason", "exitCode", "workerRank", "device", "pod")
NOTHING = "<none>"
NO_COUNTS = {"replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0}


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over a stage found, besides the spec."""

    observation: Observation
    obstacle: Obstacle | None
    """Why the spec could not be applied in full."""
    warning: Obstacle | None
    """What may keep replicas from starting."""
    old: Manifest
    """The status as it is."""
    now: datetime


def compute_status(stage: Stage, found: Pass) -> Manifest:
    """The whole status; as long as nothing happens it stays the same, so it is written once."""
    seen = failures(found.observation)
    restarts = _restarts(stage, found, seen)
    hold = next_hold(stage, restarts, found.old, found.now)
    last = _last_failure(seen, found.old)
    return {
        "observedGeneration": stage.generation,
        "selector": ",".join(f"{key}={value}" for key, value in stage.selector.items()),
        "address": f"tcp://{stage.name}.{stage.namespace}.svc:{stage.spec.ports.zmq}",
        **_counts(found.observation),
        **_revisions(found.observation),
        "endpoints": [_endpoint(stage, one) for one in found.observation.replicas[:ENDPOINTS]],
        "replicaStatuses": replica_statuses(found.observation, found.old, found.now),
        "restarts": restarts,
        **({"lastFailure": last} if last else {}),
        **({"hold": hold} if hold else {}),
        "printed": _printed(last),
        "conditions": conditions(
            _verdicts(stage, found, restarts),
            generation=stage.generation,
            old=found.old,
            now=found.now,
        ),
    }


def _restarts(stage: Stage, found: Pass, seen: list[Failure]) -> Manifest:
    before: Manifest = found.old.get("restarts", {})
    if "hold" in found.old and not stage.is_held:
        before = forgive(before, found.now)
    return count(seen, before, policy=stage.spec.failure_policy, now=found.now)


def _verdicts(stage: Stage, found: Pass, restarts: Manifest) -> dict[str, Verdict]:
    present = {one.pod for one in found.observation.replicas}
    used_up = exhausted(restarts, policy=stage.spec.failure_policy, now=found.now)
    situation = Situation(stage, found.observation, found.obstacle, found.warning)
    return verdicts(situation, exhausted=[pod for pod in used_up if pod in present])


def unreadable(generation: int, message: str, *, old: Manifest, now: datetime) -> Manifest:
    """For a spec that this version does not know: the CRD is newer than the operator.

    What runs, runs on; how, is not known until both are of one version.
    """
    verdict = unknown_spec(message)
    return (
        {**NO_COUNTS, "restarts": {"window": 0, "total": 0}, "printed": _printed({})}
        | old
        | {
            "observedGeneration": generation,
            "conditions": conditions(verdict, generation=generation, old=old, now=now),
        }
    )


def _counts(observation: Observation) -> Manifest:
    """From the pods themselves, which are ahead of the StatefulSet's own counts."""
    ready = sum(one.is_ready for one in observation.replicas)
    workload = observation.workload
    revision = "" if workload is None else workload.update_revision
    updated = sum(bool(revision) and one.revision == revision for one in observation.replicas)
    return {
        "replicas": len(observation.replicas),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
    }


def _revisions(observation: Observation) -> Manifest:
    if observation.workload is None:
        return {}
    found = {
        "currentRevision": observation.workload.current_revision,
        "updateRevision": observation.workload.update_revision,
    }
    return {name: revision for name, revision in found.items() if revision}


def _endpoint(stage: Stage, replica: Replica) -> Manifest:
    host = f"{replica.pod}.{stage.headless}.{stage.namespace}.svc"
    return {
        "name": replica.pod,
        "address": f"tcp://{host}:{stage.spec.ports.zmq}",
        "ready": replica.is_ready,
        "revision": replica.revision,
    }


def _last_failure(seen: list[Failure], old: Manifest) -> Manifest:
    """The newest of all, also when no pod shows it any more; empty if there was none."""
    before: Manifest = old.get("lastFailure", {})
    if not seen or seen[-1].time < before.get("time", ""):
        return before
    last = seen[-1]
    found = {
        "time": last.time,
        "pod": last.pod,
        "node": last.node,
        "revision": last.revision,
        **last.as_status(),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _printed(last: Manifest) -> Manifest:
    """kubectl leaves a column blank where there is no value, and blanks cannot be read."""
    return {name: str(last.get(name, NOTHING)) for name in PRINTED}
