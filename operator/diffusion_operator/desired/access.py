"""Who may reach the pods, and as whom they run: NetworkPolicy and ServiceAccount."""

from diffusion_operator.api import CLIENT_LABEL, Stage
from diffusion_operator.desired.metadata import metadata
from diffusion_operator.manifest import Manifest

CLIENTS = {"podSelector": {"matchLabels": {CLIENT_LABEL: "true"}}}


def network_policy(stage: Stage) -> Manifest:
    """Of ingress only: a rule for egress would have to know the cluster's DNS and the Hub.

    The kubelet's probes come from the pod's own node, which no policy keeps out.
    """
    chosen, ports = stage.spec.network_policy, stage.spec.ports
    rules = [_rule(list(chosen.clients) or [CLIENTS], ports.zmq)]
    if chosen.scrapers:
        rules.append(_rule(list(chosen.scrapers), ports.admin))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(stage, stage.name),
        "spec": {
            "podSelector": {"matchLabels": stage.selector},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        },
    }


def service_account(stage: Stage) -> Manifest:
    """Without any right, and without a token unless the pod template asks for one."""
    annotations = dict(stage.spec.service_account.annotations)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(stage, stage.name) | {"annotations": annotations},
        "automountServiceAccountToken": False,
    }


def _rule(peers: list[Manifest], port: int) -> Manifest:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port}]}
