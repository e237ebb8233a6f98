"""The chart: what it renders, what it refuses, and that a strict API server takes it."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from kubernetes.client import V1Deployment

from testcluster import CommandError
from tests.cluster.operator.conftest import CHART, ROOT

pytestmark = pytest.mark.cluster
KUBE = ("--kube-version", "1.34.4")


def documents(cluster, *options):
    out = cluster.helm("template", "release", CHART, "--namespace", "ns", *KUBE, *options)
    return [one for one in yaml.safe_load_all(out) if one]


def rendered(cluster, *options):
    return {one["kind"]: one for one in documents(cluster, "--no-hooks", *options)}


def hooks(cluster, *options):
    """By the event that they are for."""
    found = {}
    for one in documents(cluster, *options):
        event = one["metadata"].get("annotations", {}).get("helm.sh/hook")
        if event:
            found.setdefault(event, {})[one["kind"]] = one
    return found


def pods_of(cluster, *options):
    """The pod templates of everything that the chart makes."""
    found = [
        rendered(cluster, *options)["Deployment"]["spec"]["template"],
        hooks(cluster, *options)["pre-install,pre-upgrade"]["Job"]["spec"]["template"],
        hooks(cluster, *options)["test"]["Pod"],
    ]
    return [one["spec"] for one in found]


def variables(cluster, *options):
    ours = container(cluster, *options)["env"]
    return {one["name"].removeprefix("DIFFUSION_OPERATOR_"): one.get("value") for one in ours}


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


def test_a_digest_wins_over_the_tag(cluster):
    digest = f"sha256:{'0' * 64}"
    image = container(cluster, "--set", f"image.digest={digest}", "--set", "image.tag=7")["image"]
    assert image == f"docker.io/diffusionstage/operator@{digest}"


def test_the_charts_version_of_the_operator_is_the_packages(cluster):
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == package


def test_a_chart_that_changed_since_its_release_has_another_version(cluster):
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    released = {path.stem.rpartition("-")[2] for path in (ROOT / "charts/released").glob("*.tgz")}
    assert version not in released


VALUES = {
    "imagePullSecrets": [{"name": "secret"}],
    "fullnameOverride": "other",
    "operator": {"resyncSeconds": 60, "workers": 2, "verbose": True},
    "nodes": {"manage": True, "suspectSeconds": 600},
    "metrics": {"port": 9000},
    "serviceAccount": {"annotations": {"a": "b"}},
    "podSecurityContext": {"runAsUser": None},
    "securityContext": {"procMount": "Default"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "revisionHistoryLimit": 1,
    "priorityClassName": "high",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "commonLabels": {"cost": "42"},
    "deploymentAnnotations": {"owner": "me"},
    "podLabels": {"team": "art"},
    "podAnnotations": {"note": "x"},
}


@pytest.fixture
def chosen(tmp_path: Path):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    return ("--values", str(path))


def test_values_reach_the_operators_container(cluster, chosen):
    operator = container(cluster, *chosen)
    assert variables(cluster, *chosen) == {
        "RESYNC_S": "60",
        "WORKERS": "2",
        "STUCK_AFTER_S": "180",
        "MANAGE_NODES": "true",
        "SUSPECT_NODE_S": "600",
        "METRICS_PORT": "9000",
        "HTTPS_PROXY": "http://proxy:3128",
    }
    assert "--verbose" in operator["args"]
    assert operator["securityContext"]["procMount"] == "Default"
    assert {"name": "metrics", "containerPort": 9000} in operator["ports"]


def test_values_reach_every_pod_of_the_chart(cluster, chosen):
    for pod in pods_of(cluster, *chosen):
        for name in (
            "imagePullSecrets",
            "nodeSelector",
            "tolerations",
            "affinity",
            "priorityClassName",
        ):
            assert pod[name] == VALUES[name]
        assert "runAsUser" not in pod["securityContext"]


def test_values_reach_the_deployment_and_the_account(cluster, chosen):
    found = rendered(cluster, *chosen)
    deployment, account = found["Deployment"], found["ServiceAccount"]["metadata"]
    assert deployment["metadata"]["name"] == "other"
    assert deployment["metadata"]["annotations"] == {"owner": "me"}
    assert deployment["spec"]["revisionHistoryLimit"] == 1
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "art"
    assert metadata["annotations"] == {"note": "x"}
    assert (account["name"], account["annotations"]) == ("other", {"a": "b"})


def test_common_labels_are_on_everything_and_in_no_selector(cluster, chosen):
    made = documents(cluster, *chosen, "--set", "metrics.service.enabled=true")
    assert {one["metadata"]["labels"].get("cost") for one in made} == {"42"}
    selectors = [one["spec"]["selector"] for one in made if "selector" in one.get("spec", {})]
    assert selectors
    assert "cost" not in str(selectors)


def test_the_whole_cluster_is_watched_or_namespaces_by_name(cluster):
    assert "--all-namespaces" in container(cluster)["args"]
    own = ("--set", "rbac.scope=namespaced")
    assert "--namespace=ns" in container(cluster, *own)["args"]
    arguments = container(cluster, *own, "--set", "watchNamespaces={a,b}")["args"]
    assert {"--namespace=a", "--namespace=b"} <= set(arguments)
    assert not {"--all-namespaces", "--namespace=ns"} & set(arguments)
    assert variables(cluster, *own)["SCAN_CLUSTER"] == "false"


def test_monitors_select_the_operator_and_the_stages(cluster):
    on = (
        "--set",
        "metrics.serviceMonitor.enabled=true",
        "--set",
        "metrics.podMonitor.enabled=true",
    )
    made = documents(cluster, "--no-hooks", *on, "--set", "metrics.podMonitor.labels.release=prom")
    operator, stages = (one for one in made if one["kind"] == "PodMonitor")
    assert operator["metadata"]["labels"]["release"] == "prom"
    pod = rendered(cluster)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert operator["spec"]["selector"]["matchLabels"].items() <= pod.items()
    assert stages["spec"]["selector"] == {
        "matchExpressions": [{"key": "diffusionstage.io/stage", "operator": "Exists"}]
    }
    assert [one["port"] for one in stages["spec"]["podMetricsEndpoints"]] == ["admin"]
    assert stages["spec"]["namespaceSelector"] == {"any": True}
    [service] = [one for one in made if one["kind"] == "Service"]
    [monitor] = [one for one in made if one["kind"] == "ServiceMonitor"]
    assert service["spec"]["selector"].items() <= pod.items()
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()


def test_stages_are_scraped_where_they_are_watched(cluster):
    options = ("metrics.podMonitor.enabled=true", "rbac.scope=namespaced", "watchNamespaces={a,b}")
    made = documents(cluster, *(word for one in options for word in ("--set", one)))
    stages = [one for one in made if one["metadata"]["name"].endswith("-stages")]
    assert [one["spec"]["namespaceSelector"] for one in stages] == [{"matchNames": ["a", "b"]}]


def test_the_service_for_metrics_is_made_on_demand_and_taken_by_the_api_server(cluster):
    assert "Service" not in rendered(cluster)
    service = rendered(cluster, "--set", "metrics.service.enabled=true")["Service"]
    service["metadata"]["namespace"] = "default"
    assert "created" in cluster.kubectl(
        *("apply", "--dry-run=server", "-f", "-"), stdin=yaml.safe_dump(service)
    )


def test_the_job_for_the_crd_is_bounded_and_can_be_left_out(cluster):
    job = hooks(cluster)["pre-install,pre-upgrade"]["Job"]["spec"]
    assert (job["activeDeadlineSeconds"], job["backoffLimit"]) == (240, 2)
    assert "pre-install,pre-upgrade" not in hooks(cluster, "--set", "crds.upgrade=false")


def test_hooks_leave_nothing_behind_but_the_log_of_a_test(cluster):
    kept = {
        one["kind"]
        for made in hooks(cluster).values()
        for one in made.values()
        if "hook-succeeded" not in one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    }
    assert kept == {"Pod"}


def test_the_test_runs_where_the_operator_looks(cluster):
    scoped = ("--set", "rbac.scope=namespaced")
    for options, namespace in (
        ((), "ns"),
        (scoped, "ns"),
        ((*scoped, "--set", "watchNamespaces={a,ns}"), "ns"),
        ((*scoped, "--set", "watchNamespaces={a,b}"), "a"),
    ):
        made = hooks(cluster, *options)["test"].values()
        assert {one["metadata"]["namespace"] for one in made} == {namespace}


def test_the_stage_of_the_test_takes_what_it_is_told(cluster):
    options = ("tests.stageImage=own:1", "tests.model=/m", "tests.stageSpec.replicas=2")
    settings = [word for one in options for word in ("--set", one)]
    order = json.loads(hooks(cluster, *settings)["test"]["ConfigMap"]["data"]["order.json"])
    spec = order["spec"]
    assert (spec["image"], spec["model"], spec["replicas"]) == ("own:1", {"uri": "/m"}, 2)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("image.tga=1", "tga"),
        ("operator.workers=0", "workers"),
        ("operator.resyncSeconds=soon", "resyncSeconds"),
        ("serviceAccount.create=false", "serviceAccount"),
        ("replicas=2", "replicas"),
        ("image.digest=sha256:1", "digest"),
        ("rbac.scope=galaxy", "scope"),
        ("watchNamespaces={a}", "scope"),
        ("watchNamespaces={a*}", "watchNamespaces"),
        ("crds.upgrade=soon", "upgrade"),
        ("nodes.suspectSeconds=1", "suspectSeconds"),
        ("metrics.port=80", "port"),
        ("metrics.port=8080", "port"),
        ("metrics.podMonitor.interval=often", "interval"),
        ("metrics.podMonitor.label.a=b", "label"),
        ("extraEnv[0].value=x", "extraEnv"),
        ("revisionHistoryLimit=-1", "revisionHistoryLimit"),
        ("tests.timeoutSeconds=1", "timeoutSeconds"),
    ],
)
def test_a_value_that_is_not_known_or_not_allowed_is_refused_by_name(cluster, value, told):
    with pytest.raises(CommandError, match=told):
        rendered(cluster, "--set", value)


def test_a_strict_cluster_takes_every_pod_of_the_chart(cluster):
    """Pod security: the restricted standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "strict-operator", "labels": labels}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = ("-n", "strict-operator", "wait", "--for=create", "sa/default", "--timeout=30s")
    cluster.kubectl(*account)
    for number, spec in enumerate(pods_of(cluster)):
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec | {"serviceAccountName": "default"}}
        pod["metadata"] = {"name": f"pod-{number}", "namespace": "strict-operator"}
        dry_run = ("apply", "--dry-run=server", "-f", "-")
        assert "created" in cluster.kubectl(*dry_run, stdin=yaml.safe_dump(pod))
    cluster.kubectl("delete", "namespace", "strict-operator", "--wait=false")


def notes(cluster, *options):
    where = ("--dry-run=server", "--namespace", "default")
    return cluster.helm("install", "release", CHART, *where, *options)


def test_the_notes_tell_what_to_do_next(cluster):
    told = notes(cluster)
    assert "watches DiffusionStages in all namespaces" in told
    assert "kubectl wait --for=condition=Ready dstage/flux" in told
    assert "helm test release -n default --logs" in told
    assert "upgrades the CRD too" in told


def test_the_notes_are_true_for_other_values(cluster):
    scoped = ("rbac.scope=namespaced", "watchNamespaces={a,b}", "crds.upgrade=false")
    told = notes(cluster, *(word for one in scoped for word in ("--set", one)))
    assert "watches DiffusionStages in a, b" in told
    assert "kubectl wait -n a --for=condition=Ready dstage/flux" in told
    assert "helm show crds CHART | kubectl apply --server-side" in told
    assert "the account release-diffusion-operator needs the rights" in notes(
        cluster, "--set", "rbac.create=false"
    )
