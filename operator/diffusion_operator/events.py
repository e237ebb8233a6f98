"""The Kubernetes Events about a stage (pure).

Each has a name that says what it tells of, so that posting it again is a conflict, not a second
Event: a pass that was cut short may repeat all of its posts.
"""

import hashlib
from datetime import datetime

from diffusion_operator.api import API_VERSION, GROUP, KIND, Stage
from diffusion_operator.failures import Failure
from diffusion_operator.manifest import Manifest
from diffusion_operator.remediation import Replacement

CONTROLLER = f"{GROUP}/operator"
NOTE_CHARS = 1024  # the API's limit
ID_CHARS = 16
TOLD = (("Degraded", "True", "Warning"), ("Ready", "True", "Normal"))
"""Conditions whose turn to this status, or to another reason, is told; with the Event's type."""


def death_event(stage: Stage, failure: Failure, now: datetime) -> Manifest:
    """Named after the container."""
    note = failure.describe() + (f": {failure.message}" if failure.message else "")
    told = _event(stage, failure.container_id[-ID_CHARS:], now)
    return told | {"action": "Restart", "type": "Warning", "reason": failure.reason} | _note(note)


def replacement_event(stage: Stage, replacement: Replacement, now: datetime) -> Manifest:
    """Named after the pod that goes."""
    replica, deaths = replacement.replica, replacement.deaths
    note = f"{replica.pod}: deleted after {deaths} deaths on {replica.node}, to be placed anew"
    told = _event(stage, replica.uid[-ID_CHARS:], now)
    return told | {"action": "Replace", "type": "Warning", "reason": "PodReplaced"} | _note(note)


def condition_events(stage: Stage, old: Manifest, new: Manifest, now: datetime) -> list[Manifest]:
    """What changed from the old status to the new, as far as people want to be told."""
    before = {one["type"]: one for one in old.get("conditions", [])}
    after = {one["type"]: one for one in new["conditions"]}
    deaths = {one.get("reason") for one in new["replicaStatuses"]}  # told of already
    return [
        _condition_event(stage, before.get(kind, {}), after[kind], now) | {"type": event_type}
        for kind, status, event_type in TOLD
        if after[kind]["status"] == status
        and _differs(before.get(kind, {}), after[kind])
        and after[kind]["reason"] not in deaths
    ]


def _differs(before: Manifest, after: Manifest) -> bool:
    return any(before.get(key) != after[key] for key in ("status", "reason"))


def _condition_event(
    stage: Stage, before: Manifest, condition: Manifest, now: datetime
) -> Manifest:
    """Named after what it says, and what was before."""
    facts = [condition["type"], condition["reason"], before.get("lastTransitionTime", "")]
    name = hashlib.sha256(" ".join(facts).encode()).hexdigest()[:ID_CHARS]
    told = {"action": condition["type"], "reason": condition["reason"]}
    return _event(stage, name, now) | told | _note(condition["message"])


def _event(stage: Stage, name: str, now: datetime) -> Manifest:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": stage.namespace, "name": f"{stage.name}.{name}"},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": stage.namespace,
            "name": stage.name,
            "uid": stage.uid,
        },
    }


def _note(text: str) -> Manifest:
    return {"note": text[:NOTE_CHARS]}
