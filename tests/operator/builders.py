"""Stages, pods and StatefulSets as short as a test needs them."""

from datetime import UTC, datetime

from diffusion_operator.api import STAGE_LABEL, Spec, Stage
from diffusion_operator.observe import observe

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-01-01T11:00:00Z"}}
CREATING = {"waiting": {"reason": "ContainerCreating"}}
WORKER_DIED = (
    '{"v":1,"reason":"WorkerDied","exitCode":71,"rank":1,"device":"cpu:1","signal":9,'
    '"phase":"serving","step":7,"inflight":4,"uptime_s":81.2,"msg":"worker 1 was killed"}'
)


def make_spec(**given):
    return Spec.model_validate({"image": "stage:1", "model": {"uri": "/models/m"}} | given)


def make_stage(*, held=False, **given):
    spec = make_spec(**given)
    about = {"namespace": "ns", "name": "flux", "uid": "stage-uid", "generation": 3}
    return Stage(**about, spec=spec, is_held=held)


def ended(exit_code, *, container="c1", at="2026-01-01T11:59:00Z", message="", reason="Error"):
    """A container's `terminated` state."""
    return {
        "terminated": {
            "containerID": f"containerd://{container}",
            "exitCode": exit_code,
            "finishedAt": at,
            "message": message,
            "reason": reason,
        }
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def make_pod(
    ordinal=0, *, state=RUNNING, last=None, ready=False, started=None, revision="new", **over
):
    """A pod of the stage; `over` goes into its metadata, or with `status=` into its status."""
    container = {
        "name": "stage",
        "state": state,
        "lastState": last or {},
        "started": ready if started is None else started,
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [container],
    } | over.pop("status", {})
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"flux-{ordinal}",
            "uid": f"pod-uid-{ordinal}",
            "labels": {STAGE_LABEL: "flux", "controller-revision-hash": revision},
            "ownerReferences": [{"kind": "StatefulSet", "name": "flux", "controller": True}],
        }
        | over,
        "spec": {"nodeName": "node-1"},
        "status": status,
    }


def make_workload(replicas=2, *, observed=True, revision="new"):
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "flux", "namespace": "ns", "generation": 2},
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": 2 if observed else 1,
            "currentRevision": "old",
            "updateRevision": revision,
        },
    }


def observed(*pods, workload=None):
    return observe("flux", workload or make_workload(), list(pods))
