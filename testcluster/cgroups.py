"""Control groups of a cluster: made before its kubelets start, removed after everything has ended.

Works on version 1, version 2 and both at once: https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import os
import time
from pathlib import Path

from testcluster.errors import RequirementError

MOUNTS = Path("/proc/self/mountinfo")


def hierarchies(mountinfo: str) -> list[Path]:
    """Where each hierarchy is mounted, once each."""
    found: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if right.split()[0] in ("cgroup", "cgroup2"):
            found.setdefault(fields[2], Path(fields[4]))  # by device number
    return list(found.values())


def create(group: str) -> None:
    """Make `group`, such as `cluster/node-1`, in every hierarchy, ready for processes."""
    for top in hierarchies(MOUNTS.read_text()):
        folder = top
        for part in group.split("/"):
            _enable_controllers(folder)
            folder = folder / part
            folder.mkdir(exist_ok=True)
            _fill_cpuset(folder)


def _enable_controllers(folder: Path) -> None:
    """Version 2: children have only the controllers that their parent hands down."""
    available = folder / "cgroup.controllers"
    if not available.exists():
        return
    wanted = " ".join(f"+{name}" for name in available.read_text().split())
    try:
        (folder / "cgroup.subtree_control").write_text(wanted)
    except OSError as error:
        raise RequirementError(
            f"cannot hand the controllers {wanted} down from {folder}: {error}. "
            "In a container, start it with --privileged --cgroupns=host"
        ) from error


def _fill_cpuset(folder: Path) -> None:
    """Version 1: a group accepts no process before it has CPUs and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        parent = folder.parent / name
        if parent.exists() and not (folder / "cgroup.subtree_control").exists():
            (folder / name).write_text(parent.read_text())


def groups(prefix: str) -> list[Path]:
    """The top folders, in every hierarchy, of the groups whose names begin with `prefix`."""
    tops = hierarchies(MOUNTS.read_text())
    return [path for top in tops for path in sorted(top.glob(f"{prefix}*")) if path.is_dir()]


def remove(group: str, *, timeout_s: float = 5.0) -> None:
    """Remove `group` everywhere. Groups stay busy for moments after their last process died."""
    deadline = time.monotonic() + timeout_s
    while folders := groups(group):
        for folder in folders:
            _remove_tree(folder)
        if time.monotonic() > deadline:
            return  # leftovers() reports them
        time.sleep(0.02)


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:
            return  # busy; the caller tries again
