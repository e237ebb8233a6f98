import pytest

from diffusion_operator.desired.pod import pod_template
from diffusion_operator.errors import TemplateError
from tests.operator.builders import make_stage


def template(**spec):
    return pod_template(make_stage(**spec), {})


def container(**spec):
    return template(**spec)["spec"]["containers"][0]


def with_container(**fields):
    return {"podTemplate": {"spec": {"containers": [{"name": "stage", **fields}]}}}


def environment(**spec):
    return {one["name"]: one for one in container(**spec)["env"]}


def test_identity_is_the_operators_whatever_the_template_says():
    mine = {"image": "x", "args": ["x"], "livenessProbe": {"exec": {"command": ["true"]}}}
    found = container(**with_container(**mine, terminationMessagePath="/x"))
    assert found["image"] == "stage:1"
    assert found["args"][0] == "serve"
    assert found["terminationMessagePath"] == "/dev/termination-log"
    assert found["livenessProbe"]["httpGet"]["path"] == "/livez"


def test_the_label_that_selects_cannot_be_taken_away():
    mine = {"metadata": {"labels": {"diffusionstage.io/stage": "other", "team": "a"}}}
    labels = template(podTemplate=mine)["metadata"]["labels"]
    assert (labels["diffusionstage.io/stage"], labels["team"]) == ("flux", "a")


def test_defaults_give_way_to_the_template():
    mine = with_container(
        command=["python3"],
        resources={"limits": {"memory": "1Gi"}},
        securityContext={"readOnlyRootFilesystem": False},
    )
    found = container(**mine)
    assert found["command"] == ["python3"]
    assert found["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "1Gi"}
    assert found["securityContext"]["readOnlyRootFilesystem"] is False
    assert found["securityContext"]["allowPrivilegeEscalation"] is False


def test_a_pod_meets_the_restricted_security_standard_by_default():
    pod = template()["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False


def test_a_drain_has_time_to_finish_and_a_dead_engine_has_not():
    pod = template(drain={"timeoutSeconds": 100})["spec"]
    assert pod["terminationGracePeriodSeconds"] == 130
    assert pod["containers"][0]["livenessProbe"]["terminationGracePeriodSeconds"] == 10


def test_readiness_sees_a_dead_engine_within_two_seconds():
    probe = container()["readinessProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (1, 1)


def test_the_kubelet_gives_up_on_a_start_only_after_the_stage_has():
    probe = container(startup={"timeoutSeconds": 600})["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 630


@pytest.mark.parametrize("count", [0, 4])
def test_devices_are_asked_for_and_their_nodes_taint_is_tolerated(count):
    pod = template(accelerator={"count": count})["spec"]
    limits = {"nvidia.com/gpu": "4"} if count else {}
    assert pod["containers"][0]["resources"]["limits"] == limits
    assert ("tolerations" in pod) == bool(count)


def test_variables_of_the_spec_and_the_template_go_over_ours():
    found = environment(
        env=[{"name": "HOME", "value": "/root"}, {"name": "A", "value": "spec"}],
        **with_container(env=[{"name": "A", "value": "template"}]),
    )
    assert found["HOME"]["value"] == "/root"
    assert found["A"]["value"] == "template"
    assert found["HF_HOME"]["value"] == "/tmp/hf"


def test_the_hubs_token_comes_from_a_secret():
    model = {"uri": "hf://a/b", "authSecretRef": {"name": "hub", "key": "token"}}
    assert environment(model=model)["HF_TOKEN"] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    }


def test_a_restart_token_changes_the_template():
    annotations = template(restartToken="1")["metadata"]["annotations"]
    assert annotations["diffusionstage.io/restart-token"] == "1"


def test_sidecars_and_more_ports_are_kept():
    mine = with_container(ports=[{"containerPort": 9999}])
    mine["podTemplate"]["spec"]["containers"].append({"name": "log", "image": "fluent"})
    pod = template(**mine)["spec"]
    assert [one["containerPort"] for one in pod["containers"][0]["ports"]] == [9999, 5555, 8080]
    assert pod["containers"][1] == {"name": "log", "image": "fluent"}


def test_a_template_of_the_wrong_shape_is_named():
    with pytest.raises(TemplateError, match=r"podTemplate\.spec\.containers"):
        template(podTemplate={"spec": {"containers": {"stage": {}}}})
