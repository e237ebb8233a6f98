"""Whether a stage is ready, available, progressing, degraded, and why (pure).

kstatus and `kubectl wait` read Ready: True when the replicas that the spec wants serve. Available:
enough of them do. Degraded: something needs a look, even where all serve.
"""

from diffusion_operator.conditions import Truth, Verdict
from diffusion_operator.situation import Situation

HELD = (
    "every replica used up its restart budget, and none is started again: "
    "see status.lastFailure, then change the spec, or spec.restartToken to try again"
)
TOLD = 3  # replicas that a message tells of, one by one


def verdicts(seen: Situation, *, exhausted: list[str]) -> dict[str, Verdict]:
    """By type of condition; `exhausted` are the replicas that used up their restart budget."""
    return {
        "Ready": _ready(seen),
        "Available": _available(seen),
        "Progressing": _progressing(seen),
        "Degraded": _degraded(seen, exhausted),
        "Suspended": _suspended(seen),
    }


def unknown_spec(message: str) -> dict[str, Verdict]:
    """Where the spec cannot be read, nothing can be said of the replicas."""
    unknown = Verdict("Unknown", "InvalidSpec", message)
    return {
        "Ready": unknown,
        "Available": unknown,
        "Progressing": Verdict("False", "InvalidSpec", message),
        "Degraded": Verdict("True", "InvalidSpec", message),
        "Suspended": unknown,
    }


def _ready(seen: Situation) -> Verdict:
    count = f"{seen.ready} of {seen.wanted} replicas ready"
    if (stopped := _stopped(seen)) is not None:
        return stopped
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
    if seen.warning is not None:
        return seen.warning.reason
    if seen.unscheduled:
        return "InsufficientCapacity"
    return "RollingUpdate" if seen.is_rolling else "WaitingForReplicas"


def _details(seen: Situation) -> list[str]:
    obstacles = [one.message for one in (seen.obstacle, seen.warning) if one is not None]
    told = [*obstacles, *(one.text for one in seen.troubles), *seen.pending]
    rest = len(told) - TOLD
    return told[:TOLD] + ([f"and {rest} more"] if rest > 0 else [])


def _stopped(seen: Situation) -> Verdict | None:
    """Where no replica should run although the spec asks for some."""
    if seen.spec.suspend:
        return Verdict("False", "Suspended", "spec.suspend is true")
    if seen.stage.is_held:
        return Verdict("False", "Held", HELD)
    return None


def _available(seen: Situation) -> Verdict:
    if (stopped := _stopped(seen)) is not None:
        return stopped
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
    if (stopped := _stopped(seen)) is not None:
        return stopped
    if seen.serves:
        return Verdict("False", "RolloutComplete", "the replicas are of the present spec")
    if seen.unscheduled:
        return Verdict("True", "InsufficientCapacity", seen.unscheduled)
    if seen.is_rolling and seen.troubles:
        message = f"no more replicas are replaced until this ends: {seen.troubles[0].text}"
        return Verdict("True", "RolloutStuck", message)
    if seen.is_rolling:
        message = f"{seen.updated} replicas of {seen.moved} are of the present spec, and ready"
        return Verdict("True", "NewRevision", message)
    return Verdict("True", "WaitingForReplicas", f"{seen.ready} of {seen.wanted} replicas ready")


def _degraded(seen: Situation, exhausted: list[str]) -> Verdict:
    if seen.stage.is_held and not seen.spec.suspend:
        return Verdict("True", "RestartBudgetExhausted", HELD)
    if seen.obstacle is not None and seen.obstacle.is_final:
        return Verdict("True", seen.obstacle.reason, seen.obstacle.message)
    if seen.troubles:
        return Verdict("True", seen.troubles[0].reason, "; ".join(_details(seen)))
    if seen.warning is not None and not seen.serves:
        return Verdict("True", seen.warning.reason, seen.warning.message)
    if exhausted:
        policy = seen.spec.failure_policy
        deaths = f"{policy.restart_budget} deaths within {policy.restart_window_seconds} s"
        message = f"{', '.join(exhausted)}: the budget of {deaths} is used up; {_next(seen)}"
        return Verdict("True", "RestartBudgetExhausted", message)
    return Verdict("False", "AsExpected", "no replica fails")


def _next(seen: Situation) -> str:
    if seen.spec.failure_policy.on_budget_exhausted == "Hold":
        return "once it is for every replica, none is started again"
    return "kubelet restarts it all the same"


def _suspended(seen: Situation) -> Verdict:
    if not seen.spec.suspend:
        return Verdict("False", "NotSuspended", "spec.suspend is false")
    left = len(seen.observation.replicas)
    if left:
        return Verdict("False", "Suspending", f"{left} replicas are stopping")
    return Verdict("True", "Suspended", "no replica runs")
