"""Each replica's line in the status: what it is doing, and how it died last (pure)."""

from datetime import datetime

from diffusion_operator.failures import failure
from diffusion_operator.manifest import TIME, Manifest
from diffusion_operator.observe import Observation, Replica
from diffusion_operator.trouble import CRASH_LOOP

LISTED = 256  # the CRD's limit


def replica_statuses(observation: Observation, old: Manifest, now: datetime) -> list[Manifest]:
    """`since` stays as long as the state does, so that the status is written only for news."""
    before = {one["name"]: one for one in old.get("replicaStatuses", [])}
    return [
        _line(replica, before.get(replica.pod, {}), now)
        for replica in observation.replicas[:LISTED]
    ]


def state(replica: Replica) -> str:
    """One word."""
    if replica.is_leaving:
        return "Stopping"
    if replica.is_ready:
        return "Ready"
    if replica.pod_reason:
        return "Failed"
    if replica.waiting:
        is_loop = replica.waiting[0].reason == CRASH_LOOP
        return "CrashLoop" if is_loop else "Failed"
    if not replica.node:
        return "Pending"
    return "Loading" if replica.is_running else "Starting"


def _line(replica: Replica, before: Manifest, now: datetime) -> Manifest:
    found = state(replica)
    since = before["since"] if before.get("state") == found else now.strftime(TIME)
    line = {
        "name": replica.pod,
        "node": replica.node,
        "state": found,
        "since": since,
        "restarts": replica.restarts,
        **_last_death(replica),
    }
    return {name: value for name, value in line.items() if value not in (None, "")}


def _last_death(replica: Replica) -> Manifest:
    if not replica.ends:
        return {}
    last = failure(replica, replica.ends[0])
    return last.as_status() | ({} if last.exit_code else {"reason": "Stopped"})
