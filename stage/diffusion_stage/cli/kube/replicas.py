"""Each replica of a stage, from the stage's status, its pod and its own words (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from diffusion_stage.cli.kube.admin import Answer, Load
from diffusion_stage.cli.kube.deaths import Death, last_death
from diffusion_stage.cli.kube.objects import CONTAINER, ContainerStatus, Pod, ReplicaStatus, Stage

STARTING = ("", "ContainerCreating", "PodInitializing")  # the waits that are no news
CRASH_LOOP = "CrashLoopBackOff"
BACK_OFF = re.compile(r"back-off (\S+) restarting")


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica, for people and programs to look at.

    `state` is Ready, Loading, Starting, Pending, Stopping, Failed or CrashLoop. `told` is None when
    the replica was not asked at its admin port, since none of its containers runs.
    """

    name: str
    state: str
    node: str
    created: datetime | None
    since: datetime | None
    restarts: int
    devices: tuple[str, ...]
    phase: str
    uptime_s: float | None
    load: Load | None
    admin_trouble: str
    last_death: Death | None
    message: str


def replicas(
    stage: Stage, pods: Mapping[str, Pod], answers: Mapping[str, Answer]
) -> tuple[Replica, ...]:
    """In the order of their numbers: all that exist, and all that should."""
    told = {one.name: one for one in stage.status.replica_statuses}
    listening = {one.name: one.ready for one in stage.status.endpoints}
    wanted = [f"{stage.metadata.name}-{n}" for n in range(stage.wanted)]
    names = sorted({*pods, *told, *listening, *wanted}, key=number)
    return tuple(
        _replica(
            _Sources(name, stage, pods.get(name), told.get(name), listening.get(name)),
            answers.get(name, Answer()),
        )
        for name in names
    )


def number(name: str) -> tuple[int, str]:
    """Of a replica within its stage, to sort by."""
    last = name.rpartition("-")[2]
    return (int(last) if last.isdigit() else -1, name)


@dataclass(frozen=True, slots=True)
class _Sources:
    """All that tells of one replica; what does not is None."""

    name: str
    stage: Stage
    pod: Pod | None
    told: ReplicaStatus | None
    listens: bool | None

    @property
    def state(self) -> tuple[str, str]:
        """And why, which the pod knows. The operator's word comes first, where there is one."""
        if self.pod is not None:
            state, why = _state(self.pod)
            return self.told.state if self.told else state, why
        if self.told is not None:
            return self.told.state, ""
        if self.listens is None:
            return "Pending", "it has no pod yet"
        return ("Ready" if self.listens else "Starting"), ""


def _replica(found: _Sources, answer: Answer) -> Replica:
    pod, told, said = found.pod, found.told, answer.status
    state, message = found.state
    counted = pod.container.restart_count if pod is not None else 0
    return Replica(
        name=found.name,
        state=state,
        node=(told.node if told else "") or (pod.spec.node_name if pod else ""),
        created=pod.metadata.creation_timestamp if pod else None,
        since=told.since if told else None,
        restarts=counted if told is None or told.restarts is None else told.restarts,
        devices=tuple(worker.device for worker in said.workers) if said else (),
        phase=said.phase if said else "",
        uptime_s=said.uptime_s if said else None,
        load=said.load if said else None,
        admin_trouble=answer.trouble,
        last_death=last_death(found.name, pod, found.stage.status, told),
        message=message,
    )


def _state(pod: Pod) -> tuple[str, str]:
    if pod.is_leaving:
        return "Stopping", ""
    if pod.failure:
        return "Failed", ": ".join(filter(None, (pod.status.reason, pod.status.message)))
    if pod.is_ready:
        return "Ready", ""
    return _unready(pod)


def _unready(pod: Pod) -> tuple[str, str]:
    unscheduled = _unscheduled(pod)
    if unscheduled or not pod.spec.node_name:
        return "Pending", unscheduled
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in STARTING:
            state = "CrashLoop" if waiting.reason == CRASH_LOOP else "Failed"
            return state, _why(container)
    if pod.container.state.terminated is not None:
        return "Failed", ""
    if pod.is_running and not pod.container.started:
        return "Loading", ""
    return "Starting", "it has started and is not ready" if pod.is_running else ""


def _why(container: ContainerStatus) -> str:
    waiting = container.state.waiting
    assert waiting is not None, "only a container that waits is asked"
    pause = BACK_OFF.search(waiting.message)
    if pause and container.name == CONTAINER:  # the cause is its last death, which is shown too
        return f"kubelet tries again {pause[1]} after the end"
    return f"container {container.name}: {waiting.reason}" + (
        f": {waiting.message}" if waiting.message else ""
    )


def _unscheduled(pod: Pod) -> str:
    for one in pod.status.conditions:
        if (one.type, one.status) == ("PodScheduled", "False"):
            return one.message or one.reason
    return ""
