"""The StatefulSet: names as identity, never one pod more than asked for, no order of start."""

from diffusion_operator.api import Stage, UpdateStrategy
from diffusion_operator.desired.curve import PublicKeys
from diffusion_operator.desired.metadata import metadata
from diffusion_operator.desired.pod import pod_template
from diffusion_operator.desired.storage import cache_claim
from diffusion_operator.manifest import Manifest

REVISIONS_KEPT = 5


def stateful_set(stage: Stage, keys: PublicKeys) -> Manifest:
    """`Parallel`, so that a broken replica neither delays the others nor blocks its own repair."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(stage, stage.name),
        "spec": {
            "replicas": stage.pods,
            "serviceName": stage.headless,
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": REVISIONS_KEPT,
            "updateStrategy": _update_strategy(stage.spec.update_strategy),
            "selector": {"matchLabels": stage.selector},
            "template": pod_template(stage, keys),
            **_claims(stage),
        },
    }


def _update_strategy(wanted: UpdateStrategy) -> Manifest:
    if wanted.type == "OnDelete":
        return {"type": "OnDelete"}
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "partition": wanted.partition,
            "maxUnavailable": wanted.max_unavailable,
        },
    }


def _claims(stage: Stage) -> Manifest:
    cache = stage.spec.model.cache
    if cache is None or cache.volume_claim_template is None:
        return {}
    template = cache.volume_claim_template
    return {
        "volumeClaimTemplates": [cache_claim(template)],
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": template.retention,
            "whenScaled": "Retain",
        },
    }
