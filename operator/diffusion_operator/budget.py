"""The restart budget: deaths counted once for each container, and what follows (pure).

A replica may die `restartBudget` times inside the window; deaths before a hold ended are forgiven.
"""

from collections import Counter
from datetime import datetime, timedelta

from diffusion_operator.api import FailurePolicy
from diffusion_operator.failures import Failure
from diffusion_operator.manifest import TIME, Manifest

REMEMBERED = 256  # the CRD's limit


def uncounted(seen: list[Failure], restarts: Manifest) -> list[Failure]:
    """Those that `status.restarts` does not know yet.

    Once its list is full, deaths before the oldest in it were counted and dropped.
    """
    recent: list[Manifest] = restarts.get("recent", [])
    counted = {entry["containerID"] for entry in recent}
    dropped = min(entry["time"] for entry in recent) if len(recent) >= REMEMBERED else ""
    return [one for one in seen if one.container_id not in counted and one.time > dropped]


def count(
    seen: list[Failure], restarts: Manifest, *, policy: FailurePolicy, now: datetime
) -> Manifest:
    """The next `status.restarts`.

    A death is remembered while a pod shows it, however old, and while it is inside the window.
    """
    new = uncounted(seen, restarts)
    visible = {one.container_id for one in seen}
    since = _window_start(policy, now)
    recent: list[Manifest] = [*restarts.get("recent", []), *(_entry(one) for one in new)]
    recent = [one for one in recent if one["time"] >= since or one["containerID"] in visible]
    recent = sorted(recent, key=lambda one: (one["time"], one["containerID"]))[-REMEMBERED:]
    forgiven = {"budgetSince": restarts["budgetSince"]} if "budgetSince" in restarts else {}
    counted = {
        "window": sum(one["time"] >= since for one in recent),
        "total": restarts.get("total", 0) + len(new),
        **forgiven,
        "recent": recent,
    }
    worst = max(spent(counted, policy=policy, now=now).values(), default=0)
    return counted | {"budgetRemaining": max(0, policy.restart_budget - worst)}


def spent(restarts: Manifest, *, policy: FailurePolicy, now: datetime) -> Counter[str]:
    """By pod, its deaths that count against the budget."""
    since = max(_window_start(policy, now), restarts.get("budgetSince", ""))
    return Counter(one.get("pod", "") for one in restarts["recent"] if one["time"] >= since)


def exhausted(restarts: Manifest, *, policy: FailurePolicy, now: datetime) -> list[str]:
    """The pods that have used up their budget, by name."""
    limit = max(1, policy.restart_budget)
    used = spent(restarts, policy=policy, now=now)
    return sorted(pod for pod, deaths in used.items() if deaths >= limit)


def forgive(restarts: Manifest, now: datetime) -> Manifest:
    """After a hold: what went before no longer counts."""
    return restarts | {"budgetSince": now.strftime(TIME)}


def _window_start(policy: FailurePolicy, now: datetime) -> str:
    return (now - timedelta(seconds=policy.restart_window_seconds)).strftime(TIME)


def _entry(one: Failure) -> Manifest:
    return {
        "containerID": one.container_id,
        "time": one.time,
        "pod": one.pod,
        "podUID": one.pod_uid,
        "reason": one.reason,
        "exitCode": one.exit_code,
    }
