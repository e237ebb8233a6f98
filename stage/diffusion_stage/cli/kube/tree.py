"""A stage with all that belongs to it, made from the cluster's raw objects (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from diffusion_stage.cli.kube.admin import Answer
from diffusion_stage.cli.kube.advice import next_step
from diffusion_stage.cli.kube.objects import Event, Pod, Stage
from diffusion_stage.cli.kube.replicas import Replica, replicas

EVENTS = 10  # the newest; `kubectl describe` has them all


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One Event."""

    time: datetime | None
    type: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class StageTree:
    """`is_ready` is what the Ready condition says; False where the operator said nothing yet."""

    name: str
    namespace: str
    model: str
    created: datetime | None
    is_ready: bool
    reason: str
    message: str
    warning: str
    """What needs a look though the stage is ready."""
    next_step: str
    ready: int
    wanted: int
    deaths_in_window: int
    deaths_total: int
    window_s: int
    budget_remaining: int | None
    replicas: tuple[Replica, ...]
    events: tuple[Occurrence, ...]
    notes: tuple[str, ...]
    """What could not be read, and what makes the rest doubtful."""


def tree(
    stage: Stage,
    pods: Iterable[Pod],
    events: Iterable[Event],
    *,
    answers: Mapping[str, Answer],
    notes: Sequence[str] = (),
) -> StageTree:
    """`answers` are by pod; those of other stages, as pods and Events of others, are left out."""
    ours = {pod.name: pod for pod in pods if pod.belongs_to(stage.metadata)}
    found = replicas(stage, ours, answers)
    ready = stage.condition("Ready")
    warning = _warning(stage)
    reason = ready.reason if ready else ""
    cause = warning.partition(":")[0] if ready and ready.status == "True" and warning else reason
    restarts = stage.status.restarts
    return StageTree(
        name=stage.metadata.name,
        namespace=stage.metadata.namespace,
        model=stage.spec.model.uri,
        created=stage.metadata.creation_timestamp,
        is_ready=ready is not None and ready.status == "True",
        reason=reason or "NoStatus",
        message=ready.message if ready else "the operator has written no status",
        warning=warning,
        next_step=next_step(cause, stage.metadata.name),
        ready=sum(one.state == "Ready" for one in found),
        wanted=stage.wanted,
        deaths_in_window=restarts.window,
        deaths_total=restarts.total,
        window_s=stage.spec.failure_policy.restart_window_seconds,
        budget_remaining=restarts.budget_remaining,
        replicas=found,
        events=occurrences(stage, events),
        notes=(*notes, *_doubts(stage)),
    )


def occurrences(stage: Stage, events: Iterable[Event]) -> tuple[Occurrence, ...]:
    """The newest Events of this very stage, newest last; one of the same name had its own."""
    ours = [one for one in events if one.regarding.uid == stage.metadata.uid]
    never = datetime.min.replace(tzinfo=UTC)
    ours.sort(key=lambda one: one.last_seen or never)
    return tuple(
        Occurrence(one.last_seen, one.type, one.reason, one.note) for one in ours[-EVENTS:]
    )


def _warning(stage: Stage) -> str:
    degraded, ready = stage.condition("Degraded"), stage.condition("Ready")
    if degraded is None or degraded.status != "True":
        return ""
    if ready is not None and ready.reason == degraded.reason:
        return ""
    return f"{degraded.reason}: {degraded.message}"


def _doubts(stage: Stage) -> list[str]:
    seen, present = stage.status.observed_generation, stage.metadata.generation
    doubts = []
    if stage.status.conditions and seen < present:
        doubts.append(f"the operator has not seen the present spec: {present}, it knows {seen}")
    if stage.metadata.deletion_timestamp is not None:
        doubts.append("the stage is being deleted")
    return doubts
