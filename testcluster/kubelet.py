"""The kubelet of one node."""

from pathlib import Path
from typing import Any

from testcluster import containerd, network
from testcluster.layout import RUN

MAX_RESTART_DELAY = "10s"  # instead of 5 minutes: tests wait for restarts


def group(cluster: str, number: int) -> str:
    """The control group that holds a node's pods."""
    return f"{cluster}/node-{number}"


def root(number: int) -> Path:
    """Where the kubelet keeps pods and makes sockets; of the cluster's mount namespace."""
    return RUN / f"kubelet-{number}"


def config(number: int, *, cluster: str, folder: Path, resolv_conf: Path) -> dict[str, Any]:
    """A KubeletConfiguration that evicts nothing, collects no image and restarts soon."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.node_ip(number),
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group(cluster, number)}",
        "cgroupsPerQOS": True,
        "clusterDNS": [network.DNS_IP],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{containerd.socket(number)}",
        "crashLoopBackOff": {"maxContainerRestartPeriod": MAX_RESTART_DELAY},
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "healthzPort": 0,
        "imageGCHighThresholdPercent": 100,
        "maxPods": 60,
        "oomScoreAdj": 0,
        "podLogsDir": str(folder / "pod-logs"),
        "resolvConf": str(resolv_conf),
        "serializeImagePulls": False,
        "volumePluginDir": str(folder / "volume-plugins"),
    }


def arguments(number: int, *, config_file: Path, kubeconfig: Path, folder: Path) -> list[str]:
    values = {
        "config": config_file,
        "kubeconfig": kubeconfig,
        "hostname-override": f"node-{number}",
        "node-ip": network.node_ip(number),
        "root-dir": root(number),
        "cert-dir": folder / "kubelet-pki",
    }
    return [f"--{name}={value}" for name, value in values.items()]
