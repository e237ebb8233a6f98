"""Command lines of the parts that every cluster has once."""

from collections.abc import Mapping
from pathlib import Path

from testcluster import network
from testcluster.layout import Layout

ETCD = "http://127.0.0.1:2379"
COREFILE = """\
.:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
}}
"""


def flags(values: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def etcd(where: Layout) -> list[str]:
    """A store that is new at each start and need not survive a power cut."""
    return flags(
        {
            "data-dir": where.root / "etcd",
            "unsafe-no-fsync": "true",
            "listen-client-urls": ETCD,
            "advertise-client-urls": ETCD,
            "listen-peer-urls": "http://127.0.0.1:2380",
            "log-level": "warn",
        }
    )


def apiserver(where: Layout) -> list[str]:
    """It makes its own certificate, which serves as the authority too."""
    return flags(
        {
            "etcd-servers": ETCD,
            "cert-dir": where.pki,
            "bind-address": network.API_IP,
            "advertise-address": network.API_IP,
            "secure-port": network.API_PORT,
            "service-cluster-ip-range": network.SERVICES,
            "token-auth-file": where.tokens,
            "authorization-mode": "Node,RBAC",
            "service-account-key-file": where.account_key,
            "service-account-signing-key-file": where.account_key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "kubelet-preferred-address-types": "InternalIP",
        }
    )


def controller_manager(where: Layout) -> list[str]:
    return flags(
        {
            "kubeconfig": where.kubeconfig_of("system:kube-controller-manager"),
            "root-ca-file": where.ca,
            "service-account-private-key-file": where.account_key,
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "authentication-skip-lookup": "true",
            "kube-api-qps": 500,  # it makes 35 accounts before the first pod can be made
            "kube-api-burst": 1000,
            "node-monitor-grace-period": "20s",  # a dead node is noticed within a test's patience
        }
    )


def scheduler(where: Layout) -> list[str]:
    return flags(
        {
            "kubeconfig": where.kubeconfig_of("system:kube-scheduler"),
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
            "leader-elect": "false",
            "authentication-skip-lookup": "true",
        }
    )


def proxy(where: Layout) -> list[str]:
    """One for all nodes: they share the network namespace. It leaves host-wide limits alone."""
    return flags(
        {
            "kubeconfig": where.kubeconfig_of("system:kube-proxy"),
            "proxy-mode": "iptables",
            "cluster-cidr": network.PODS,
            "hostname-override": "node-1",
            "conntrack-max-per-core": 0,
            "conntrack-min": 0,
        }
    )


def corefile(where: Layout) -> str:
    kubeconfig: Path = where.kubeconfig_of("coredns")
    return COREFILE.format(address=network.DNS_IP, kubeconfig=kubeconfig)
