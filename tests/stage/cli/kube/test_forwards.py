"""Ports that lead to ready replicas, with a kubectl that answers as told."""

import threading

import pytest

from diffusion_stage.cli.kube import forward, forwards
from diffusion_stage.cli.kube.errors import ForbiddenError, KubectlError, NoReadyReplicaError
from diffusion_stage.cli.kube.forwards import Forwards
from diffusion_stage.cli.kube.kubectl import Kubectl
from tests.stage.cli.kube.builders import listed, pod_json


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch):
    monkeypatch.setattr(forwards, "AGAIN_S", 0.02)


def announce(port, remote=5555):
    """What kubectl prints where it also listens on IPv6."""
    return f"Forwarding from 127.0.0.1:{port} -> {remote}\nForwarding from [::1]:1 -> {remote}\n"


def opened(kubectl):
    return Forwards(Kubectl(str(kubectl.program)), "flux")


def test_each_ready_replica_has_a_port_until_the_end(kubectl):
    kubectl.on("port-forward .* pod/flux-0 :5555", announce(1000), stays="up")
    kubectl.on("port-forward .* pod/flux-1 :5555", announce(1001), stays="up")
    with opened(kubectl) as ways:
        assert ways.address == "tcp://127.0.0.1:1000,tcp://127.0.0.1:1001"
    for call in kubectl.calls("port-forward"):
        assert call[1] == "--address=127.0.0.1"


def test_only_replicas_that_are_ready_are_asked_and_not_too_many(kubectl):
    pods = [pod_json(n, ready=n != 0) for n in range(9)]
    kubectl.on("get pods", listed(*pods))
    kubectl.on("port-forward", announce(1000), stays="up")
    with opened(kubectl):
        asked = {call[2] for call in kubectl.calls("port-forward")}
    assert asked == {f"pod/flux-{n}" for n in range(1, 5)}


def test_a_port_leads_to_another_ready_replica_when_its_own_is_lost(kubectl):
    kubectl.on("get pods", listed(pod_json(0)))
    kubectl.on("port-forward .* pod/flux-0 :5555", announce(1000), stays="first")
    kubectl.on("port-forward .* pod/flux-1 1000:5555", announce(1000), stays="second")
    with opened(kubectl) as ways:
        kubectl.on("get pods", listed(pod_json(0, ready=False), pod_json(1)))
        kubectl.end("first")
        wait = threading.Event()
        while len(kubectl.calls("port-forward")) < 2:
            assert not wait.wait(0.02)
        assert ways.address == "tcp://127.0.0.1:1000"
    assert kubectl.calls("port-forward")[1][2:] == ["pod/flux-1", "1000:5555"]


def test_one_replica_that_cannot_be_reached_leaves_the_others(kubectl):
    kubectl.on("port-forward .* pod/flux-1", announce(1001), stays="up")
    kubectl.fails("port-forward .* pod/flux-0", "error: unable to forward port")
    with opened(kubectl) as ways:
        assert ways.address == "tcp://127.0.0.1:1001"


def test_where_no_replica_can_be_reached_kubectls_words_are_told(kubectl):
    kubectl.fails("port-forward", 'Error from server (Forbidden): pods "flux-0" is forbidden')
    with pytest.raises(ForbiddenError, match="a right is missing"), opened(kubectl):
        pass


def test_where_no_replica_is_ready_the_status_is_pointed_at(kubectl):
    kubectl.on("get pods", listed(pod_json(0, ready=False)))
    with pytest.raises(NoReadyReplicaError, match="kubectl dstage status flux"), opened(kubectl):
        pass
    assert kubectl.calls("port-forward") == []


def test_a_kubectl_that_opens_no_port_is_not_waited_for_without_end(kubectl, monkeypatch):
    monkeypatch.setattr(forward, "START_TIMEOUT_S", 0.3)
    kubectl.on("port-forward", stays="hung")
    with pytest.raises(KubectlError, match=r"no port within 0\.3 s"), opened(kubectl):
        pass


def test_an_error_in_the_block_ends_every_kubectl(kubectl):
    kubectl.on("port-forward", announce(1000), stays="up")
    with pytest.raises(KeyboardInterrupt), opened(kubectl):
        raise KeyboardInterrupt
