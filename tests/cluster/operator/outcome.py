"""What a stage came to, in a form in which two stages can be compared."""

import json
import re

from tests.cluster.operator.stages import until

EACH_ITS_OWN = {
    "uid",
    "podUID",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "clusterIP",
    "clusterIPs",
    "lastTransitionTime",
    "containerID",
    "time",
    "since",
    "node",
    "currentRevision",
    "updateRevision",
    "revision",
}


def outcome(cluster, stages, name):
    """Children, status and Events without what differs from object to object, under one name."""
    children = {"/".join(key): one for key, one in stages.children(name).items()}
    for one in children.values():
        one.pop("status", None)  # of other controllers, in their own time
    warned, told = events(cluster, name, "Warning"), events(cluster, name, "Normal")
    # A turn to the worse and back is told only where an operator was there to see it.
    found = {**children, "status": stages.status(name), "warned": warned, "told": sorted({*told})}
    return json.loads(re.sub(rf"\b{name}\b", "NAME", json.dumps(_common(found))))


def events(cluster, name, kind="Warning"):
    """The reasons of all Events of that type about this very stage."""
    listed = json.loads(cluster.kubectl("get", "dstage,events.events.k8s.io", "-o", "json"))
    [uid] = [
        one["metadata"]["uid"]
        for one in listed["items"]
        if (one["kind"], one["metadata"]["name"]) == ("DiffusionStage", name)
    ]
    about = [one for one in listed["items"] if one.get("regarding", {}).get("uid") == uid]
    return sorted(one["reason"] for one in about if one["type"] == kind)


def quiet(faults):
    """Nothing is written any more."""
    until(lambda: not faults.writes_within(1), within_s=30)


def _common(value):
    match value:
        case dict():
            return {k: _common(v) for k, v in value.items() if k not in EACH_ITS_OWN}
        case list():
            return [_common(one) for one in value]
        case _:
            return value
