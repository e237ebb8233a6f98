"""The PodDisruptionBudget: node drains take a few replicas at a time."""

from diffusion_operator.api import Stage
from diffusion_operator.desired.metadata import metadata
from diffusion_operator.manifest import Manifest


def disruption_budget(stage: Stage) -> Manifest:
    """In terms of the unavailable, so that a stage of one replica does not block a drain.

    Replicas that do not serve may always be evicted.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(stage, stage.name),
        "spec": {
            "maxUnavailable": stage.spec.pod_disruption_budget.max_unavailable,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": stage.selector},
        },
    }
