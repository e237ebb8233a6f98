"""The Kubernetes Events about a stage (pure)."""

from datetime import datetime

from diffusion_operator.api import API_VERSION, GROUP, KIND, Stage
from diffusion_operator.failures import Failure
from diffusion_operator.manifest import Manifest

CONTROLLER = f"{GROUP}/operator"
NOTE_CHARS = 1024  # the API's limit
ID_CHARS = 16


def death_event(stage: Stage, failure: Failure, now: datetime) -> Manifest:
    """Named after the container, so that a second post of the same death is a conflict."""
    note = failure.describe() + (f": {failure.message}" if failure.message else "")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "namespace": stage.namespace,
            "name": f"{stage.name}.{failure.container_id[-ID_CHARS:]}",
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Restart",
        "type": "Warning",
        "reason": failure.reason,
        "note": note[:NOTE_CHARS],
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": stage.namespace,
            "name": stage.name,
            "uid": stage.uid,
        },
    }
