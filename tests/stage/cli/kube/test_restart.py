"""`kubectl dstage restart`, and `suspend` and `resume`, with a kubectl that answers as told."""

import json

import pytest

from diffusion_stage.cli.kube.restart import fresh_token
from tests.stage.cli.kube.builders import NOW, stage_json


def patch(kubectl):
    (call,) = kubectl.calls("patch")
    assert call[1:4] == ["diffusionstages.diffusionstage.io", "flux", "--type=merge"]
    return json.loads(call[4].removeprefix("--patch="))["spec"]


@pytest.mark.parametrize(("command", "suspend"), [("suspend", True), ("resume", False)])
def test_suspend_and_resume_change_one_field(command, suspend, dstage, kubectl, capsys):
    kubectl.on("patch", stage_json(spec={"suspend": suspend}))
    assert dstage(command, "flux") == 0
    assert patch(kubectl) == {"suspend": suspend}
    assert capsys.readouterr().out.startswith("flux is ")


def test_restart_gives_a_token_that_was_never_there(dstage, kubectl, capsys):
    kubectl.on("patch", stage_json())
    assert dstage("restart", "flux") == 0
    assert 0 < len(patch(kubectl)["restartToken"]) <= 64
    assert "2 replicas are replaced, one after the other" in capsys.readouterr().out
    assert kubectl.calls("wait") == []
    assert fresh_token(NOW) != fresh_token(NOW)
    assert fresh_token(NOW).startswith("2026-01-01T12:00:00Z-")


def test_restart_waits_until_the_new_replicas_are_ready(dstage, kubectl, capsys):
    kubectl.on("patch", stage_json())
    kubectl.on("wait diffusionstages.diffusionstage.io/flux --for=condition=Ready --timeout=5m")
    assert dstage("restart", "flux", "--wait", "--timeout=5m") == 0
    assert "flux is ready\n" in capsys.readouterr().out


def test_a_wait_that_takes_too_long_fails(dstage, kubectl, capsys):
    kubectl.on("patch", stage_json())
    kubectl.fails("wait", "error: timed out waiting for the condition on diffusionstages/flux")
    assert dstage("restart", "flux", "--wait") == 1
    assert "flux is not ready after 1h: kubectl dstage status flux" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"suspend": True}, "flux is suspended, so no replica runs: kubectl dstage resume flux"),
        ({"updateStrategy": {"type": "OnDelete"}}, "each pod is replaced once it is deleted"),
    ],
)
def test_a_restart_that_replaces_nothing_by_itself_says_so(spec, told, dstage, kubectl, capsys):
    kubectl.on("patch", stage_json(spec=spec))
    assert dstage("restart", "flux") == 0
    assert told in capsys.readouterr().out


def test_a_missing_right_to_change_is_told(dstage, kubectl, capsys):
    kubectl.fails("patch", 'Error from server (Forbidden): User "eve" cannot patch it')
    assert dstage("suspend", "flux") == 2
    assert "a right is missing" in capsys.readouterr().err
