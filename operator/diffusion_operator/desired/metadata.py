"""Names, labels and the owner reference of everything that is made for a stage."""

from diffusion_operator.api import API_VERSION, KIND, Stage
from diffusion_operator.manifest import Manifest


def labels(stage: Stage) -> dict[str, str]:
    """For people and their tools."""
    recommended = {
        "app.kubernetes.io/name": "diffusion-stage",
        "app.kubernetes.io/instance": stage.name,
        "app.kubernetes.io/managed-by": "diffusion-operator",
    }
    return recommended | stage.selector


def metadata(stage: Stage, name: str) -> Manifest:
    """Owned by the stage, so that Kubernetes collects it when the stage goes.

    Without `blockOwnerDeletion`, which needs the right to update finalizers on some clusters.
    """
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": stage.name,
        "uid": stage.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": stage.namespace,
        "labels": labels(stage),
        "ownerReferences": [owner],
    }
