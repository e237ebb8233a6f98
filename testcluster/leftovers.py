"""What a cluster that is down may have left behind on the host."""

import time
from collections.abc import Iterator
from pathlib import Path

from testcluster import cgroups
from testcluster.layout import GROUP_PREFIX

PROC = Path("/proc")
RUNTIME = Path("/run/testcluster")
SHARED_MEMORY = Path("/dev/shm")


def leftovers(
    cluster: str = GROUP_PREFIX, *, shared_memory: str = "diffusion", within_s: float = 2.0
) -> list[str]:
    """Everything left of the cluster with this id, or of all clusters, running ones included.

    Looks for processes, network namespaces, mounts, control groups, sockets, and segments in
    /dev/shm whose names begin with `shared_memory`. Each is one readable line. What goes away
    `within_s` seconds by itself is not left over: commands notice the end of their cluster late.
    """
    deadline = time.monotonic() + within_s
    while (left := _now(cluster, shared_memory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _now(cluster: str, shared_memory: str) -> list[str]:
    return [
        *_processes(cluster),
        *_mounts(cluster),
        *(f"control group {path}" for path in cgroups.groups(cluster)),
        *(f"socket folder {path}" for path in [RUNTIME] if path.exists()),
        *(f"shared memory {path}" for path in sorted(SHARED_MEMORY.glob(f"{shared_memory}*"))),
    ]


def _processes(cluster: str) -> Iterator[str]:
    """Processes that a cluster's guard started, or that sit in a cluster's control group."""
    mark = f"TESTCLUSTER_ID={cluster}".encode()
    for folder in PROC.glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
            group = (folder / "cgroup").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            net = (folder / "ns" / "net").readlink()
        except (OSError, UnicodeDecodeError):
            continue  # it ended meanwhile
        if mark in environ or f"/{cluster}" in group:
            yield f"process {folder.name} ({command}) in {net}"


def _mounts(cluster: str) -> Iterator[str]:
    """Mounts of the host that belong to a cluster's folders."""
    for line in (PROC / "self" / "mountinfo").read_text().splitlines():
        point = line.split()[4]
        if cluster in line or point.startswith(str(RUNTIME)):
            yield f"mount {point}"
