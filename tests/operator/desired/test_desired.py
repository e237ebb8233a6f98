"""The whole of what is made for a stage, against golden files and Kubernetes' own schema."""

from pathlib import Path

import pytest
import yaml
from kubernetes.client import (
    V1ConfigMap,
    V1NetworkPolicy,
    V1PodDisruptionBudget,
    V1Secret,
    V1Service,
    V1ServiceAccount,
    V1StatefulSet,
)
from pydantic import ValidationError

from diffusion_operator.api import Stage
from diffusion_operator.desired import desired_state
from tests.operator.builders import make_stage

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.yaml"))
KEYS = {1: "p" * 40, 2: "q" * 40}
# By their JSON names the client's models refuse what Kubernetes does not know.
MODELS = {
    "ConfigMap": V1ConfigMap,
    "NetworkPolicy": V1NetworkPolicy,
    "Secret": V1Secret,
    "ServiceAccount": V1ServiceAccount,
    "PodDisruptionBudget": V1PodDisruptionBudget,
    "Service": V1Service,
    "StatefulSet": V1StatefulSet,
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_rendering_is_what_earlier_versions_rendered(path):
    """A change in a template of these files replaces every pod of every user at an upgrade."""
    stage, *expected = yaml.safe_load_all(path.read_text())
    assert desired_state(Stage.parse(stage), KEYS) == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_manifests_fit_kubernetes_schema(path):
    stage = Stage.parse(next(yaml.safe_load_all(path.read_text())))
    for manifest in desired_state(stage, KEYS):
        MODELS[manifest["kind"]].model_validate(manifest)


def test_the_schema_sees_a_typo_deep_inside():
    manifest = desired_state(make_stage(), KEYS)[-1]
    manifest["spec"]["template"]["spec"]["containers"][0]["imagePullpolicy"] = "Always"
    with pytest.raises(ValidationError):
        V1StatefulSet.model_validate(manifest)


def test_everything_is_owned_by_the_stage_and_has_its_label():
    for manifest in desired_state(make_stage(), KEYS):
        metadata = manifest["metadata"]
        [owner] = metadata["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("stage-uid", True)
        assert metadata["labels"]["diffusionstage.io/stage"] == "flux"
        assert metadata["namespace"] == "ns"


def test_a_disabled_budget_is_not_there():
    kinds = [
        one["kind"]
        for one in desired_state(make_stage(podDisruptionBudget={"enabled": False}), KEYS)
    ]
    assert "PodDisruptionBudget" not in kinds


def test_clients_find_only_ready_replicas_by_name():
    headless, service, *_ = desired_state(make_stage(), KEYS)
    assert headless["metadata"]["name"] == "flux-pods"
    assert headless["spec"]["publishNotReadyAddresses"] is False
    assert headless["spec"]["clusterIP"] == "None"
    assert [port["name"] for port in service["spec"]["ports"]] == ["zmq"]


def test_a_suspended_stage_has_no_pods_and_keeps_its_services():
    *others, workload = desired_state(make_stage(replicas=3, suspend=True), KEYS)
    assert workload["spec"]["replicas"] == 0
    assert len(others) == 3


def test_on_delete_leaves_pods_alone():
    workload = desired_state(make_stage(updateStrategy={"type": "OnDelete"}), KEYS)[-1]
    assert workload["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_claims_outlive_the_stage_unless_the_user_says_otherwise():
    cache = {"volumeClaimTemplate": {"size": "1Gi", "retention": "Delete"}}
    spec = desired_state(make_stage(model={"uri": "/m", "cache": cache}), KEYS)[-1]["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
    assert spec["volumeClaimTemplates"][0]["metadata"] == {"name": "cache"}
