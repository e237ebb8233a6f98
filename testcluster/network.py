"""Addresses of the cluster's own network namespace. Several clusters have the same ones.

All nodes live in one network namespace. Pods get routed interfaces (the `ptp` plugin), so that
traffic between them through a Service needs no bridge netfilter on the host.
"""

import socket
import subprocess
from pathlib import Path
from typing import Any

from testcluster.errors import RequirementError, StartError

API_IP = "10.89.0.1"  # also the first node's; on a bridge without ports: not every kernel has dummy
API_PORT = 6443
DNS_IP = API_IP  # kube-proxy rejects addresses of the Service range that it does not know
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
RESOLV_CONF = f"""\
nameserver {DNS_IP}
search default.svc.cluster.local svc.cluster.local cluster.local
options ndots:5
"""


def node_ip(number: int) -> str:
    return f"10.89.0.{number}"


def pod_subnet(number: int) -> str:
    return f"10.244.{number}.0/24"


def configure(numbers: range) -> None:
    """Give this network namespace its addresses, a default route and forwarding."""
    addresses = [f"addr add {node_ip(n)}/24 dev node0" for n in numbers or range(1, 2)]
    lines = ["link set lo up", "link add node0 type bridge", *addresses, "link set node0 up"]
    lines.append(f"route add default via {API_IP} dev node0")
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StartError(f"cannot configure the network: {done.stderr.strip()}")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    socket.sethostname("testcluster")


def plugin_folder() -> Path:
    """Where the CNI plugins are installed."""
    for folder in PLUGIN_FOLDERS:
        if (folder / "ptp").exists():
            return folder
    raise RequirementError(f"no CNI plugins in {' or '.join(map(str, PLUGIN_FOLDERS))}")


def pod_network(number: int, leases: Path) -> dict[str, Any]:
    """The CNI configuration of one node."""
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(leases),
                    "ranges": [[{"subnet": pod_subnet(number)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
