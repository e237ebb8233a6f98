"""Where models come from, as far as the API server and the kubelet have a say."""

import json

import pytest

from tests.cluster.operator.stages import template, until

pytestmark = pytest.mark.cluster


def claim(name, mode="ReadWriteOnce", volume=None):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "volumeName": volume or name,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def volume(name, path, mode="ReadWriteOnce"):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": str(path)},
            "storageClassName": "",
        },
    }


@pytest.fixture
def weights(installed, tmp_path):
    """A claim called `weights` on a folder of this machine, of an access mode."""

    def _weights(mode="ReadWriteOnce"):
        installed.apply(volume("weights", tmp_path, mode))
        installed.apply(claim("weights", mode))
        return tmp_path

    yield _weights
    options = ("--ignore-not-found", "--wait=false")
    installed.kubectl("delete", "pvc/weights", "pv/weights", *options)


def test_a_claim_that_is_missing_is_named_and_made_later_it_heals_the_stage(
    operator, stages, installed, weights
):
    stages.make("claimant", ready=False, model={"uri": "pvc://weights/m"})
    until(lambda: stages.condition("claimant")["reason"] == "ModelClaimMissing")
    assert "weights" in stages.condition("claimant")["message"]
    assert stages.condition("claimant", "Degraded")["reason"] == "ModelClaimMissing"
    (weights() / "m").mkdir()
    stages.wait("claimant")
    [pod] = json.loads(
        installed.kubectl("get", "pods", "-l", "diffusionstage.io/stage=claimant", "-o", "json")
    )["items"]
    [container] = pod["spec"]["containers"]
    assert "--model=/model/m" in container["args"]
    assert {"name": "model", "mountPath": "/model", "readOnly": True} in container["volumeMounts"]


def test_a_claim_for_one_node_is_a_warning_while_replicas_wait_and_none_once_they_serve(
    operator, stages, installed, weights
):
    """T53: the pods cannot run here (no such node), so the warning stays until they can."""
    weights()
    nowhere = template()
    nowhere["spec"]["nodeSelector"] = {"no": "node"}
    uri = {"uri": "pvc://weights"}
    stages.make("torn", ready=False, replicas=2, model=uri, podTemplate=nowhere)
    until(lambda: stages.condition("torn")["reason"] == "ModelCacheConflict")
    message = stages.condition("torn")["message"]
    assert "weights (ReadWriteOnce) can be used by the pods of one node" in message
    stages.change(
        "torn", podTemplate=template() | {"spec": template()["spec"] | {"nodeSelector": None}}
    )
    stages.wait("torn")
    assert stages.condition("torn", "Degraded")["status"] == "False"


@pytest.mark.parametrize(
    "model",
    [
        {"uri": "oci://example.org/flux:1"},
        {"uri": "/models/m", "cache": {"image": {"reference": "example.org/cache:1"}}},
    ],
)
def test_where_the_server_has_no_image_volumes_a_condition_says_so(
    operator, stages, installed, model
):
    """This server's release has them switched off."""
    stages.make("pictured", ready=False, model=model)
    until(lambda: stages.condition("pictured")["reason"] == "ImageVolumesUnsupported")
    assert "feature gate ImageVolume" in stages.condition("pictured")["message"]
    stages.change("pictured", model={"uri": "/models/m", "cache": None})
    stages.wait("pictured")
