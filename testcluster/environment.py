"""The environment of commands inside a cluster."""

import os
from collections.abc import Mapping
from pathlib import Path

from testcluster.layout import RUN, Layout


def environment(where: Layout, base: Mapping[str, str]) -> dict[str, str]:
    """`base` with kubectl and helm in the PATH, the cluster current, and caches below root."""
    home = where.root / "home"
    return {
        **base,
        "PATH": f"{where.bin}{os.pathsep}{base.get('PATH', os.defpath)}",
        "KUBECONFIG": str(where.kubeconfig),
        "KUBECACHEDIR": str(home / "kube"),
        "HELM_CACHE_HOME": str(home / "helm-cache"),
        "HELM_CONFIG_HOME": str(home / "helm-config"),
        "HELM_DATA_HOME": str(home / "helm-data"),
        "TESTCLUSTER_ID": where.id,
    }


def is_inside(where: Layout) -> bool:
    """Whether this process runs inside that cluster's namespaces."""
    return RUN.exists() and os.environ.get("TESTCLUSTER_ID") == where.id


def link_commands(where: Layout, binaries: Path) -> None:
    """Make kubectl and helm commands; kubebox picks its part by the name it is called by."""
    where.bin.mkdir(parents=True, exist_ok=True)
    for command, binary in (("kubectl", "kubebox"), ("helm", "helm")):
        link = where.bin / command
        link.unlink(missing_ok=True)
        link.symlink_to(binaries / binary)
