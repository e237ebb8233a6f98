"""What a machine needs to run a cluster, and how Debian packages provide it."""

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testcluster.errors import RequirementError
from testcluster.network import PLUGIN_FOLDERS

ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
APT_TIMEOUT_S = 900.0

logger = logging.getLogger("testcluster")


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that must be there, the package that brings it, and why it is needed."""

    package: str
    why: str
    is_met: Callable[[], bool]


def has_command(*names: str) -> bool:
    """Whether one of the commands is in the PATH or among the administrator's."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *ADMIN_FOLDERS])
    return any(shutil.which(name, path=path) for name in names)


def has_plugins() -> bool:
    return any((folder / "ptp").exists() for folder in PLUGIN_FOLDERS)


def command(package: str, why: str, *names: str) -> Requirement:
    return Requirement(package, why, partial(has_command, *(names or (package,))))


CLUSTER = (
    command("containerd", "runs the containers"),
    command("runc", "starts each container"),
    Requirement("containernetworking-plugins", "give pods their network", has_plugins),
    command("iptables", "Services of the cluster"),
    command("conntrack", "kube-proxy forgets the connections of ended pods"),
    command("iproute2", "the cluster's own network namespace", "ip"),
    command("openssl", "the key that signs service accounts' tokens"),
)
IMAGES = (
    command("buildah", "builds images without a daemon", "docker", "podman", "buildah"),
    command("mmdebstrap", "makes a base image where no image registry can be reached"),
    command("zstd", "packs image layers"),
)


def missing() -> list[str]:
    """What keeps a cluster from running here, each with what to do; empty where it can."""
    if sys.platform != "linux":
        return ["a cluster needs Linux: use a Linux machine or virtual machine"]
    found = []
    if os.geteuid() != 0:
        found.append("a cluster needs root: run as root")
    packages = [need.package for need in CLUSTER if not need.is_met()]
    if packages:
        found.append(f"missing {' '.join(packages)}: run `python -m testcluster install`")
    if not Path("/proc/self/ns/pid").exists():
        found.append("a cluster needs namespaces: use a kernel that has them")
    return found


def install() -> None:
    """Install the Debian packages that are missing; does nothing where all are there."""
    needs = [need for need in (*CLUSTER, *IMAGES) if not need.is_met()]
    if not needs:
        return
    for need in needs:
        logger.info("installing %-28s %s", need.package, need.why)
    packages, start_s = [need.package for need in needs], time.monotonic()
    if shutil.which("apt-get") is None:
        raise RequirementError(f"no apt-get here: install what provides {' '.join(packages)}")
    if os.geteuid() != 0:
        raise RequirementError(f"not root: run `sudo apt-get install {' '.join(packages)}`")
    _apt_get("update", "--quiet=2")
    _apt_get("install", "--yes", "--quiet=2", "--no-install-recommends", *packages)
    absent = [need.package for need in needs if not need.is_met()]
    if absent:
        raise RequirementError(f"installed, but still missing: {' '.join(absent)}")
    logger.info("%5.0f s  installed", time.monotonic() - start_s)


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        timeout=APT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RequirementError(f"apt-get {' '.join(arguments)} failed: {done.stderr.strip()}")
