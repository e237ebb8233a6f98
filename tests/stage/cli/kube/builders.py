"""A stage, its pods and its Events as `kubectl get -o json` prints them."""

from datetime import UTC, datetime

from diffusion_stage.cli.kube.objects import Event, Pod, Stage

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-01-01T11:00:00Z"}}
WORKER_DIED = (
    '{"v":1,"reason":"WorkerDied","exitCode":71,"rank":1,"device":"cuda:1","signal":9,'
    '"phase":"serving","step":7,"inflight":4,"uptime_s":81.2,"msg":"worker 1 was killed"}'
)
SPEC = {
    "image": "docker.io/diffusionstage/stage:0.1.0",
    "model": {"uri": "hf://black-forest-labs/FLUX.1-schnell"},
    "replicas": 2,
    "suspend": False,
    "accelerator": {"count": 2, "resourceName": "nvidia.com/gpu"},
    "ports": {"zmq": 5555, "admin": 8080},
    "failurePolicy": {"restartBudget": 5, "restartWindowSeconds": 3600},
    "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0},
}
LAST_FAILURE = {
    "time": "2026-01-01T11:59:00Z",
    "pod": "flux-0",
    "node": "node-1",
    "reason": "WorkerDied",
    "exitCode": 71,
    "signal": 9,
    "workerRank": 1,
    "device": "cuda:1",
    "revision": "flux-5c9d",
    "message": "worker 1 was killed",
}


def condition(kind, status, reason, message=""):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-01T11:00:00Z",
    }


def stage_json(*conditions, spec=None, **status):
    """Of two replicas, ready unless conditions say otherwise."""
    return {
        "apiVersion": "diffusionstage.io/v1alpha1",
        "kind": "DiffusionStage",
        "metadata": {
            "name": "flux",
            "namespace": "art",
            "uid": "stage-uid",
            "generation": 3,
            "creationTimestamp": "2025-12-30T12:00:00Z",
        },
        "spec": SPEC | (spec or {}),
        "status": {
            "observedGeneration": 3,
            "replicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "updatedReplicas": 2,
            "selector": "diffusionstage.io/stage=flux",
            "address": "tcp://flux.art.svc:5555",
            "endpoints": [endpoint(0), endpoint(1)],
            "restarts": {"window": 0, "total": 0, "budgetRemaining": 5, "recent": []},
            "printed": {"reason": "<none>"},
            "conditions": list(conditions)
            or [
                condition("Ready", "True", "AllReplicasReady", "2 of 2 replicas ready"),
                condition("Degraded", "False", "AsExpected", "no replica fails"),
            ],
        }
        | status,
    }


def endpoint(ordinal, *, ready=True):
    address = f"tcp://flux-{ordinal}.flux-pods.art.svc:5555"
    return {"name": f"flux-{ordinal}", "address": address, "ready": ready, "revision": "flux-5c9d"}


def ended(exit_code, *, at="2026-01-01T11:59:00Z", message="", reason="Error"):
    """A container's `terminated` state."""
    return {
        "terminated": {
            "containerID": "containerd://c1",
            "exitCode": exit_code,
            "startedAt": "2026-01-01T11:00:00Z",
            "finishedAt": at,
            "message": message,
            "reason": reason,
        }
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def pod_json(ordinal=0, *, state=RUNNING, last=None, ready=True, status=None, **metadata):
    """`status` and `metadata` go over what is there."""
    container = {
        "name": "stage",
        "containerID": "containerd://c2",
        "ready": ready,
        "started": ready,
        "restartCount": 1 if last else 0,
        "state": state,
        "lastState": last or {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"flux-{ordinal}",
            "namespace": "art",
            "uid": f"pod-{ordinal}",
            "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": {"diffusionstage.io/stage": "flux"},
            "ownerReferences": [{"kind": "StatefulSet", "name": "flux", "controller": True}],
        }
        | metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": "stage"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [container],
        }
        | (status or {}),
    }


def event_json(reason, note, *, at="2026-01-01T11:59:01.123456Z", uid="stage-uid"):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "flux.c1", "namespace": "art", "creationTimestamp": at},
        "eventTime": at,
        "type": "Warning",
        "reason": reason,
        "note": note,
        "regarding": {"kind": "DiffusionStage", "name": "flux", "namespace": "art", "uid": uid},
    }


def listed(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def make_stage(*conditions, **given):
    return Stage.model_validate(stage_json(*conditions, **given))


def make_pod(ordinal=0, **given):
    return Pod.model_validate(pod_json(ordinal, **given))


def make_event(*given, **more):
    return Event.model_validate(event_json(*given, **more))
