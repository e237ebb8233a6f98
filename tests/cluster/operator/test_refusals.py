"""Bad manifests, and more rights than the operator needs."""

import pytest

from testcluster import CommandError
from tests.cluster.operator.conftest import ACCOUNT, NAMESPACE
from tests.cluster.operator.stages import manifest, template, until

pytestmark = pytest.mark.cluster
BAD = {
    "an unknown field": ({"engine": {"maxNumSeq": 2}}, "spec.engine.maxNumSeq"),
    "an unknown field of a variable": ({"env": [{"name": "A", "vlaue": "b"}]}, "spec.env[0].vlaue"),
    "a wrong type": ({"replicas": "two"}, "spec.replicas"),
    "a number out of bounds": ({"engine": {"maxQueue": 0}}, "spec.engine.maxQueue"),
    "a word that is not allowed": ({"engine": {"dtype": "int4"}}, "spec.engine.dtype"),
    "more parallelism than devices": (
        {"accelerator": {"count": 2}, "parallelism": {"tensor": 3}},
        "spec.parallelism",
    ),
    "less parallelism than devices": (
        {"accelerator": {"count": 2}, "parallelism": {}},
        "data*tensor*sequence*pipeline*cfg must equal accelerator.count",
    ),
    "a model from nowhere": ({"model": {"uri": "s3://bucket/m"}}, "spec.model.uri"),
    "no model": ({"model": {}}, "spec.model.uri"),
    "two caches": (
        {"model": {"uri": "/m", "cache": {"emptyDir": {}, "image": {"reference": "r"}}}},
        "spec.model.cache",
    ),
    "no quantity": ({"sharedMemory": "NaN"}, "spec.sharedMemory"),
    "one port for two": ({"ports": {"zmq": 8080}}, "spec.ports"),
    "an update that never moves": (
        {"updateStrategy": {"maxUnavailable": 0}},
        "spec.updateStrategy.maxUnavailable",
    ),
    "a variable twice": ({"env": [{"name": "A"}, {"name": "A"}]}, "spec.env[1]"),
}


@pytest.mark.parametrize("kind", BAD)
def test_the_api_server_refuses_and_names(installed, kind):
    spec, field = BAD[kind]
    with pytest.raises(CommandError) as refused:
        installed.apply(manifest("bad", **spec))
    assert field in str(refused.value)


@pytest.mark.parametrize("name", ["9lives", "x" * 51, "a.b"])
def test_a_name_that_no_service_could_have_is_refused(installed, name):
    with pytest.raises(CommandError, match=r"metadata\.name"):
        installed.apply(manifest(name))


def test_in_cpu_mode_parallelism_is_free(installed):
    free = manifest("free", parallelism={"data": 3})
    installed.run("kubectl", "create", "--dry-run=server", "-f", "-", stdin=str(free))


def test_claims_of_a_stage_cannot_be_changed(operator, stages, installed):
    cache = {"volumeClaimTemplate": {"size": "1Gi"}}
    stages.make("claims", replicas=0, model={"uri": "/m", "cache": cache})
    for other in ({"volumeClaimTemplate": {"size": "2Gi"}}, None):
        with pytest.raises(CommandError, match="volumeClaimTemplate"):
            stages.change("claims", model={"cache": other})


def test_a_typo_in_the_pod_template_is_a_condition_and_replicas_serve_on(operator, stages):
    stages.make("typo")
    pods = stages.pods("typo")
    bad = template()
    bad["spec"]["hostnetwork"] = True
    stages.change("typo", podTemplate=bad)
    until(lambda: stages.condition("typo", "Degraded")["reason"] == "PodTemplateRejected")
    message = stages.condition("typo", "Degraded")["message"]
    assert "hostnetwork: field not declared in schema" in message
    assert stages.condition("typo", "Progressing")["reason"] == "PodTemplateRejected"
    assert stages.condition("typo")["status"] == "True"
    assert stages.pods("typo") == pods
    stages.change("typo", podTemplate={"spec": {"hostnetwork": None}})
    until(lambda: stages.condition("typo", "Degraded")["status"] == "False")


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("update", "diffusionstages"),
        ("patch", "diffusionstages"),
        ("delete", "diffusionstages"),
        ("update", "statefulsets.apps"),
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", "pods"),
        ("create", "pods/exec"),
        ("patch", "nodes"),
        ("list", "namespaces"),
        ("create", "clusterrolebindings"),
        ("patch", "customresourcedefinitions"),
    ],
)
def test_the_operator_has_no_right_that_it_does_not_need(installed, verb, resource):
    who = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    asked = installed.run("kubectl", "auth", "can-i", verb, resource, who, "-A", check=False)
    assert asked.stdout.strip() == "no"


@pytest.mark.parametrize(("verb", "resource"), [("list", "pods"), ("create", "services")])
def test_the_question_is_answered_yes_for_what_it_needs(installed, verb, resource):
    who = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    asked = installed.run("kubectl", "auth", "can-i", verb, resource, who, "-A", check=False)
    assert asked.stdout.strip() == "yes"
