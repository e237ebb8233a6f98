"""The rights that the chart gives, and the requests that the operator makes: the same set."""

import pytest
import yaml

from tests.cluster.operator.conftest import ACCOUNT, CHART, NAMESPACE
from tests.cluster.operator.outcome import quiet
from tests.cluster.operator.stages import DEAD_WORKER, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
SPECS = {  # the least of each kind that may be owned
    "Service": {"ports": [{"port": 1}]},
    "PodDisruptionBudget": {"selector": {}},
    "StatefulSet": {
        "serviceName": "x",
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
SECURED = {
    "curve": {"clients": [{"name": "web", "publicKey": "w" * 40}]},
    "networkPolicy": {"enabled": True},
    "serviceAccount": {"create": True},
}
UNSECURED = {"curve": None, "networkPolicy": None, "serviceAccount": None}
VERSIONS = {"Service": "v1", "PodDisruptionBudget": "policy/v1", "StatefulSet": "apps/v1"}


@pytest.fixture
def granted(installed):
    """Verb, group and resource of each right in the operator's own role."""
    shown = ("--namespace", NAMESPACE, "--kube-version", "1.34.4")
    rendered = installed.helm("template", ACCOUNT, CHART, *shown)
    objects = [one for one in yaml.safe_load_all(rendered) if one]
    bound = {
        (one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in objects
        if one["kind"].endswith("RoleBinding")
        and [subject["name"] for subject in one["subjects"]] == [ACCOUNT]
    }
    rules = [
        rule
        for one in objects
        if (one["kind"], one["metadata"]["name"]) in bound
        for rule in one["rules"]
    ]
    return {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def leftover(kind, stage):
    """Something of an earlier version: owned by the stage, of a name that is wanted no more."""
    name = stage["metadata"]["name"]
    owner = {key: stage[key] for key in ("apiVersion", "kind")} | {"controller": True}
    owner |= {key: stage["metadata"][key] for key in ("name", "uid")}
    metadata = {
        "name": f"{name}-left",
        "labels": {"diffusionstage.io/stage": name},
        "ownerReferences": [owner],
    }
    head = {"apiVersion": VERSIONS[kind], "kind": kind}
    return head | {"metadata": metadata, "spec": SPECS[kind]}


def live(stages, installed, faults):
    """The whole life of a stage: made, edited, scaled, dead, suspended, deleted; and leftovers."""
    stages.make("life", replicas=2, **SECURED)
    installed.kubectl("delete", "svc", "life")
    stages.change("life", podDisruptionBudget={"enabled": False})
    until(lambda: not installed.get("pdb", "life"))
    stages.change("life", failurePolicy={"replacePodAfterRestarts": 1})
    stages.wait("life")
    stages.ask("life-1", DEAD_WORKER)
    until(lambda: stages.status("life")["restarts"]["total"] == 1)
    stages.change("life", model={"uri": "pvc://none"})
    until(lambda: stages.condition("life")["reason"] == "ModelClaimMissing")
    stages.change("life", model={"uri": "/models/m"}, **UNSECURED)
    until(lambda: not installed.get("configmap", "life-curve"), within_s=90)
    installed.kubectl("scale", "dstage", "life", "--replicas=1")
    stage = installed.get("dstage", "life")
    installed.apply(*(leftover(kind, stage) for kind in SPECS))
    for kind in SPECS:
        until(lambda kind=kind: not installed.get(kind, "life-left"))
    stages.change("life", suspend=True)
    until(lambda: stages.condition("life")["reason"] == "Suspended")
    installed.kubectl("delete", "dstage", "life")
    quiet(faults)


def test_the_operator_uses_every_right_it_has_and_needs_no_other(
    granted, behind, faults, stages, installed
):
    """T58: no refusal, and nothing in the role that a whole life does not use."""
    start = faults.mark()
    behind.start()
    live(stages, installed, faults)
    seen = faults.requests(start)
    assert [one for one in seen if one.status in (401, 403)] == []
    used = set().union(*(one.rights for one in seen if one.resource))
    assert sorted(used - granted) == [], "asked for and not granted"
    assert sorted(granted - used) == [], "granted and never used"


def test_every_list_and_watch_of_what_others_have_too_asks_for_ours_only(behind, faults, stages):
    """T33: foreign pods never reach the operator."""
    start = faults.mark()
    behind.start()
    stages.make("select", replicas=0)
    seen = [one for one in faults.requests(start) if one.verb in ("list", "watch")]
    ours = ("diffusionstages", "customresourcedefinitions")
    others = [one for one in seen if one.resource and one.resource not in ours]
    assert {one.resource for one in others} >= {"pods", "services", "statefulsets"}
    assert [one for one in others if "diffusionstage.io/stage" not in one.selector] == []


def test_the_chart_brings_nothing_that_could_hang_or_expire(installed):
    """T28, T29: no webhook, and so no certificate; no hook that an uninstallation waits for."""
    shown = ("--namespace", NAMESPACE, "--kube-version", "1.34.4")
    rendered = yaml.safe_load_all(installed.helm("template", ACCOUNT, CHART, *shown))
    objects = [one for one in rendered if one]
    assert "Deployment" in {one["kind"] for one in objects}
    assert [one for one in objects if "Webhook" in one["kind"] or one["kind"] == "Secret"] == []
    hooks = {one["metadata"].get("annotations", {}).get("helm.sh/hook", "") for one in objects}
    assert hooks == {"", "pre-install,pre-upgrade", "test"}
