"""The chart: what it renders, what it refuses, and that a strict API server takes it."""

from pathlib import Path

import pytest
import yaml
from kubernetes.client import V1Deployment

from testcluster import CommandError
from tests.cluster.operator.conftest import CHART, ROOT

pytestmark = pytest.mark.cluster
KUBE = ("--kube-version", "1.34.4")


def rendered(cluster, *options):
    out = cluster.helm("template", "release", CHART, "--namespace", "ns", *KUBE, *options)
    return {one["kind"]: one for one in yaml.safe_load_all(out) if one}


def container(cluster, *options):
    return rendered(cluster, *options)["Deployment"]["spec"]["template"]["spec"]["containers"][0]


def test_helm_finds_no_fault(cluster):
    assert "0 chart(s) failed" in cluster.helm("lint", "--strict", CHART)


def test_helm_installs_the_crd_of_the_repository(cluster):
    shown = yaml.safe_load(cluster.helm("show", "crds", CHART))
    assert shown == yaml.safe_load((ROOT / "crds" / "diffusionstages.yaml").read_text())


def test_the_crd_of_the_repository_is_applied_as_a_folder_too(cluster):
    assert "diffusionstages" in cluster.kubectl(
        *("apply", "--dry-run=server", "-f", str(ROOT / "crds"))
    )


def test_the_deployment_fits_kubernetes_schema(cluster):
    V1Deployment.model_validate(rendered(cluster)["Deployment"])


def test_the_image_is_of_the_charts_version_unless_told_otherwise(cluster):
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(cluster)["image"] == f"docker.io/diffusionstage/operator:{version}"
    told = ("--set", "image.repository=example.org/op", "--set", "image.tag=7")
    assert container(cluster, *told)["image"] == "example.org/op:7"


def test_every_value_is_rendered(cluster, tmp_path: Path):
    values = {
        "imagePullSecrets": [{"name": "secret"}],
        "fullnameOverride": "other",
        "operator": {"resyncSeconds": 60, "workers": 2, "verbose": True},
        "serviceAccount": {"annotations": {"a": "b"}},
        "priorityClassName": "high",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podLabels": {"team": "art"},
        "podAnnotations": {"note": "x"},
    }
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    found = rendered(cluster, "--values", str(path))
    pod = found["Deployment"]["spec"]["template"]
    [operator] = pod["spec"]["containers"]
    assert found["ServiceAccount"]["metadata"] | {"labels": None} == {
        "name": "other",
        "namespace": "ns",
        "annotations": {"a": "b"},
        "labels": None,
    }
    assert {one["name"]: one["value"] for one in operator["env"]} == {
        "DIFFUSION_OPERATOR_RESYNC_S": "60",
        "DIFFUSION_OPERATOR_WORKERS": "2",
        "DIFFUSION_OPERATOR_STUCK_AFTER_S": "180",
    }
    assert "--verbose" in operator["args"]
    for name in (
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "affinity",
        "priorityClassName",
    ):
        assert pod["spec"][name] == values[name]
    assert pod["metadata"]["labels"]["team"] == "art"
    assert pod["metadata"]["annotations"] == {"note": "x"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("image.tga=1", "tga"),
        ("operator.workers=0", "workers"),
        ("operator.resyncSeconds=soon", "resyncSeconds"),
        ("serviceAccount.create=false", "serviceAccount"),
        ("replicas=2", "replicas"),
    ],
)
def test_a_value_that_is_not_known_or_not_allowed_is_refused_by_name(cluster, value, told):
    with pytest.raises(CommandError, match=told):
        rendered(cluster, "--set", value)


def test_a_strict_cluster_takes_the_operators_pod(cluster):
    """Pod security: the restricted standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "strict-operator", "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    pod = rendered(cluster)["Deployment"]["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "operator", "namespace": "strict-operator"}
    pod["spec"]["serviceAccountName"] = "default"
    account = ("-n", "strict-operator", "wait", "--for=create", "sa/default", "--timeout=30s")
    cluster.kubectl(*account)
    dry_run = ("apply", "--dry-run=server", "-f", "-")
    assert "created" in cluster.kubectl(*dry_run, stdin=yaml.safe_dump(pod))
    cluster.kubectl("delete", "namespace", "strict-operator", "--wait=false")


def test_the_notes_tell_what_to_do_next(cluster):
    told = cluster.helm("install", "release", CHART, "--dry-run=server", "--namespace", "default")
    assert "kubectl wait --for=condition=Ready dstage/flux" in told
