"""Whether a stage is ready, available, progressing, degraded, and why (pure).

kstatus and `kubectl wait` read Ready: True when the replicas that the spec wants serve. Available:
enough of them do. Degraded: something needs a look, even where all serve.
"""

from diffusion_operator.api import Spec
from diffusion_operator.conditions import Truth, Verdict
from diffusion_operator.observe import Observation
from diffusion_operator.situation import Obstacle, Situation

TOLD = 3  # replicas that a message tells of, one by one


def verdicts(
    spec: Spec, observation: Observation, obstacle: Obstacle | None, *, deaths: int
) -> dict[str, Verdict]:
    """By type of condition; `deaths` are those inside the budget window."""
    seen = Situation(spec, observation, obstacle)
    return {
        "Ready": _ready(seen),
        "Available": _available(seen),
        "Progressing": _progressing(seen),
        "Degraded": _degraded(seen, deaths),
    }


def unknown_spec(message: str) -> dict[str, Verdict]:
    """Where the spec cannot be read, nothing can be said of the replicas."""
    unknown = Verdict("Unknown", "InvalidSpec", message)
    return {
        "Ready": unknown,
        "Available": unknown,
        "Progressing": Verdict("False", "InvalidSpec", message),
        "Degraded": Verdict("True", "InvalidSpec", message),
    }


def _ready(seen: Situation) -> Verdict:
    count = f"{seen.ready} of {seen.wanted} replicas ready"
    if seen.spec.suspend:
        return Verdict("False", "Suspended", "spec.suspend is true")
    if seen.serves:
        reason = "AllReplicasReady" if seen.wanted else "ScaledToZero"
        behind = seen.obstacle and f"; not of the present spec: {seen.obstacle.message}"
        return Verdict("True", reason, count + (behind or ""))
    return Verdict("False", _cause(seen), "; ".join([count, *_details(seen)]))


def _cause(seen: Situation) -> str:
    if seen.troubles:
        return seen.troubles[0].reason
    if seen.obstacle is not None:
        return seen.obstacle.reason
    if seen.unscheduled:
        return "InsufficientCapacity"
    return "RollingUpdate" if seen.is_rolling else "WaitingForReplicas"


def _details(seen: Situation) -> list[str]:
    told = [one.text for one in seen.troubles] + seen.pending
    if seen.obstacle is not None:
        told.insert(0, seen.obstacle.message)
    rest = len(told) - TOLD
    return told[:TOLD] + ([f"and {rest} more"] if rest > 0 else [])


def _available(seen: Situation) -> Verdict:
    if seen.spec.suspend:
        return Verdict("False", "Suspended", "spec.suspend is true")
    if seen.wanted == 0:
        return Verdict("False", "ScaledToZero", "spec.replicas is 0")
    message = f"{seen.ready} of {seen.wanted} replicas serve, at least {seen.needed} should"
    if seen.ready >= seen.needed:
        return Verdict("True", "MinimumReplicasAvailable", message)
    return Verdict("False", "MinimumReplicasUnavailable", message)


def _progressing(seen: Situation) -> Verdict:
    if seen.obstacle is not None:
        status: Truth = "False" if seen.obstacle.is_final else "True"
        return Verdict(status, seen.obstacle.reason, seen.obstacle.message)
    if seen.spec.suspend:
        return Verdict("False", "Suspended", "spec.suspend is true")
    if seen.serves:
        return Verdict("False", "RolloutComplete", "the replicas are of the present spec")
    if seen.unscheduled:
        return Verdict("True", "InsufficientCapacity", seen.unscheduled)
    if seen.is_rolling:
        message = f"{seen.updated} replicas of {seen.moved} are of the present spec, and ready"
        return Verdict("True", "NewRevision", message)
    return Verdict("True", "WaitingForReplicas", f"{seen.ready} of {seen.wanted} replicas ready")


def _degraded(seen: Situation, deaths: int) -> Verdict:
    policy = seen.spec.failure_policy
    if seen.obstacle is not None and seen.obstacle.is_final:
        return Verdict("True", seen.obstacle.reason, seen.obstacle.message)
    if seen.troubles:
        return Verdict("True", seen.troubles[0].reason, "; ".join(_details(seen)))
    if deaths > 0 and deaths >= policy.restart_budget:
        window = f"{deaths} deaths within {policy.restart_window_seconds} s"
        message = f"{window}; the budget is {policy.restart_budget}"
        return Verdict("True", "RestartBudgetExhausted", message)
    return Verdict("False", "AsExpected", "no replica fails")
