"""How many CPUs this container may use: its affinity and its control group's quota, rounded up."""

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def available_cpus(cgroups: Path = CGROUPS) -> int:
    """At least 1. A pod's CPU limit is a quota, which neither Python nor torch looks at."""
    affine = len(os.sched_getaffinity(0))
    return max(1, min(affine, math.ceil(_quota(cgroups) or affine)))


def _quota(cgroups: Path) -> float | None:
    """CPUs by cgroup v2's `cpu.max` or v1's `cpu.cfs_quota_us`; None without a limit."""
    try:
        quota, period = (cgroups / "cpu.max").read_text().split()
    except OSError:
        try:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)
