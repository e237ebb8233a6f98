"""`kubectl dstage status` with a kubectl that answers as told."""

import json

import pytest

from tests.stage.cli.kube.builders import (
    condition,
    endpoint,
    event_json,
    listed,
    pod_json,
    stage_json,
    waiting,
)

STAGES = "get diffusionstages.diffusionstage.io"
FORBIDDEN = 'Error from server (Forbidden): {} is forbidden: User "eve" cannot list it'


def test_a_stage_is_read_with_its_pods_its_events_and_its_admin_ports(dstage, kubectl, capsys):
    kubectl.on("get events", listed(event_json("WorkerDied", "flux-1: worker 1 was killed")))
    assert dstage("status", "flux") == 0
    out = capsys.readouterr().out
    assert "├─ flux-0  Ready" in out
    assert "WorkerDied  flux-1: worker 1 was killed" in out
    asked = [" ".join(call) for call in kubectl.calls("get")]
    assert any("--selector=diffusionstage.io/stage=flux" in call for call in asked)
    assert any("regarding.kind=DiffusionStage,regarding.name=flux" in call for call in asked)
    raw = [call[2] for call in kubectl.calls() if call[1] == "--raw"]
    assert sorted(raw) == [
        f"/api/v1/namespaces/art/pods/flux-{n}:8080/proxy/status" for n in (0, 1)
    ]


def test_a_stage_that_is_not_ready_is_told_by_the_exit_code(dstage, kubectl, capsys):
    failing = stage_json(condition("Ready", "False", "ImagePull", "no such image"))
    kubectl.on(f"{STAGES} flux", failing)
    assert dstage("status", "flux") == 1
    assert "not Ready: ImagePull" in capsys.readouterr().out


def test_all_stages_of_a_namespace_or_of_all_are_shown(dstage, kubectl, capsys):
    other = stage_json()
    other["metadata"] |= {"name": "wan", "namespace": "film"}
    kubectl.on(f"{STAGES} --all-namespaces", listed(stage_json(), other))
    assert dstage("status") == 0
    assert "film/wan" not in capsys.readouterr().out
    assert dstage("status", "-A") == 0
    out = capsys.readouterr().out
    assert out.index("art/flux") < out.index("film/wan")


def test_no_stage_at_all_is_no_failure(dstage, kubectl, capsys):
    kubectl.on(f"{STAGES} --", listed())
    assert dstage("status") == 0
    assert "no stages here" in capsys.readouterr().out


def test_a_name_in_all_namespaces_is_refused(dstage, kubectl, capsys):
    assert dstage("status", "flux", "-A") == 2
    assert kubectl.calls() == []


def test_json_holds_all_that_was_found(dstage, kubectl, capsys):
    kubectl.on("get --raw", '{"phase": "serving", "uptime_s": 1.0, "load": '
               '{"waiting": 1, "running": 2, "materializing": 0}}')  # fmt: skip
    assert dstage("status", "flux", "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["is_ready"]) == ("flux", True)
    assert found["created"] == "2025-12-30T12:00:00+00:00"
    assert found["replicas"][0]["load"] == {"waiting": 1, "running": 2, "materializing": 0}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            'error: the server doesn\'t have a resource type "diffusionstages"',
            "this cluster knows no DiffusionStages: install the chart",
        ),
        (
            'Error from server (NotFound): diffusionstages.diffusionstage.io "flux" not found',
            "there is no such stage here: `kubectl dstage status -A` shows all",
        ),
        (FORBIDDEN.format("diffusionstages"), "a right is missing"),
        ("Unable to connect to the server: dial tcp: i/o timeout", "kubectl failed"),
    ],
)
def test_what_keeps_a_stage_from_being_read_is_told_with_kubectls_words(
    words, told, dstage, kubectl, capsys
):
    noise = 'E0101 12:00:00.000000    7 memcache.go:265] "Unhandled Error"\n'
    kubectl.fails(STAGES, f"{noise}{words}\n")
    assert dstage("status", "flux") == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.endswith(f"kubectl says: {words}\n")
    assert said.out == ""


def test_rights_that_are_missing_for_the_rest_cost_only_the_rest(dstage, kubectl, capsys):
    kubectl.on(f"{STAGES} flux", stage_json(endpoints=[endpoint(0), endpoint(1)]))
    for what in ("pods", "events"):
        kubectl.fails(f"get {what}", FORBIDDEN.format(what))
    kubectl.fails("get --raw", FORBIDDEN.format("pods/proxy"))
    assert dstage("status", "flux") == 0
    out = capsys.readouterr().out
    assert "! pods cannot be read: a right is missing" in out
    assert "! Events cannot be read: a right is missing" in out
    assert "└─ flux-1  Ready" in out
    assert out.count("admin port: no answer: Error from server (Forbidden)") == 2


def test_a_replica_without_a_running_container_is_not_asked(dstage, kubectl):
    pulling = pod_json(1, ready=False, state=waiting("ImagePullBackOff"))
    kubectl.on("get pods", listed(pod_json(0), pulling))
    dstage("status", "flux")
    assert sum(call[1] == "--raw" for call in kubectl.calls()) == 1


def test_an_admin_port_that_never_answers_is_waited_for_so_long(
    dstage, kubectl, capsys, monkeypatch
):
    monkeypatch.setattr("diffusion_stage.cli.kube.cluster.ADMIN_TIMEOUT_S", 0.5)
    kubectl.on("flux-1:8080", stays="hung")
    assert dstage("status", "flux") == 0
    out = capsys.readouterr().out
    assert "admin port: no answer: nothing in 0.5 s to `kubectl get --raw" in " ".join(out.split())
