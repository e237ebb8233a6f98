"""What the cluster shows of a stage: raw StatefulSet and pods, parsed once."""

from dataclasses import dataclass

from diffusion_operator.api import CONTAINER
from diffusion_operator.manifest import Manifest, controller

NODE_LOST = ("DeletionByTaintManager", "DeletionByPodGC")  # who deleted the pod, and so why
STARTING = ("ContainerCreating", "PodInitializing")  # the waits that are no news


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of one stage container, as the kubelet reports it."""

    container_id: str
    exit_code: int
    reason: str
    message: str
    finished_at: str
    pod_reason: str
    """`Evicted` or the like, where the pod as a whole failed with this end; else empty."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that cannot start, and why."""

    container: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod."""

    pod: str
    uid: str
    """Of the pod: of this placement."""
    node: str
    revision: str
    restarts: int
    """Of the stage container in this pod."""
    is_ready: bool
    """Ready, and not told to stop: a pod that drains still has the condition."""
    is_leaving: bool
    lost_node: bool
    """It leaves because its node no longer answers; so it stays until someone deletes it."""
    has_started: bool
    """The startup probe of the present container has succeeded."""
    is_running: bool
    waiting: tuple[Waiting, ...]
    ends: tuple[Termination, ...]
    """Of the stage container, newest first; Kubernetes shows two at most."""
    pod_reason: str
    """`Evicted` or the like, where the pod as a whole failed; empty where it did not."""
    pod_failure: str
    """The same in words."""
    unscheduled: str
    """Why no node takes the pod; empty where one does."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The StatefulSet."""

    is_observed: bool
    """Its controller has seen the present spec, so the revisions are those of the spec."""
    wanted: int
    current_revision: str
    update_revision: str


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that the status of a stage is made from."""

    workload: Workload | None
    replicas: tuple[Replica, ...]
    """In the order of their ordinals."""


def observe(name: str, workload: Manifest | None, pods: list[Manifest]) -> Observation:
    """Only the StatefulSet's own pods count; a label alone makes no replica."""
    ours = [pod for pod in pods if _is_ours(pod, name)]
    return Observation(
        workload=None if workload is None else _workload(workload),
        replicas=tuple(_replica(pod) for pod in sorted(ours, key=_ordinal)),
    )


def is_rolled_out(workload: Manifest | None) -> bool:
    """Every pod is of the StatefulSet's template, so nothing of an earlier one is needed."""
    if workload is None:
        return True
    status = workload.get("status", {})
    return bool(
        status.get("observedGeneration") == workload["metadata"]["generation"]
        and status.get("currentRevision") == status.get("updateRevision")
        and status.get("updatedReplicas", 0) == workload["spec"]["replicas"]
    )


def _is_ours(pod: Manifest, name: str) -> bool:
    owner = controller(pod)
    return owner is not None and (owner["kind"], owner["name"]) == ("StatefulSet", name)


def _ordinal(pod: Manifest) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _workload(raw: Manifest) -> Workload:
    status = raw.get("status", {})
    return Workload(
        is_observed=status.get("observedGeneration", 0) >= raw["metadata"]["generation"],
        wanted=raw["spec"].get("replicas", 1),
        current_revision=status.get("currentRevision", ""),
        update_revision=status.get("updateRevision", ""),
    )


def _replica(pod: Manifest) -> Replica:
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    container = _stage_status(status)
    is_leaving = "deletionTimestamp" in metadata
    pod_reason = _pod_reason(status)
    return Replica(
        pod=metadata["name"],
        uid=metadata["uid"],
        node=pod["spec"].get("nodeName", ""),
        revision=metadata.get("labels", {}).get("controller-revision-hash", ""),
        restarts=container.get("restartCount", 0),
        is_ready=not is_leaving and conditions.get("Ready", {}).get("status") == "True",
        is_leaving=is_leaving,
        lost_node=conditions.get("DisruptionTarget", {}).get("reason") in NODE_LOST,
        has_started=container.get("started", False),
        is_running="running" in container.get("state", {}),
        waiting=_waiting(status),
        ends=_ends(container, pod_reason),
        pod_reason=pod_reason,
        pod_failure=_pod_failure(status),
        unscheduled=_unscheduled(conditions.get("PodScheduled", {})),
    )


def _stage_status(status: Manifest) -> Manifest:
    statuses: list[Manifest] = status.get("containerStatuses", [])
    return next((one for one in statuses if one["name"] == CONTAINER), {})


def _ends(container: Manifest, pod_reason: str) -> tuple[Termination, ...]:
    states = [
        (container.get(place, {}).get("terminated"), why)
        for place, why in (("state", pod_reason), ("lastState", ""))
    ]
    return tuple(
        Termination(
            container_id=end["containerID"],
            exit_code=end["exitCode"],
            reason=end.get("reason", ""),
            message=end.get("message", ""),
            finished_at=end["finishedAt"],
            pod_reason=why,
        )
        for end, why in states
        if end is not None and end.get("containerID") and end.get("finishedAt")
    )


def _waiting(status: Manifest) -> tuple[Waiting, ...]:
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    found = [(one["name"], one.get("state", {}).get("waiting")) for one in statuses]
    return tuple(
        Waiting(name, wait["reason"], wait.get("message", ""))
        for name, wait in found
        if wait is not None and wait.get("reason", STARTING[0]) not in STARTING
    )


def _pod_reason(status: Manifest) -> str:
    if status.get("phase") != "Failed":
        return ""
    reason = str(status.get("reason", ""))
    return reason if reason.isalnum() else "PodFailed"  # `OutOfnvidia.com/gpu` is no condition's


def _pod_failure(status: Manifest) -> str:
    if status.get("phase") != "Failed":
        return ""
    return ": ".join(filter(None, (status.get("reason", "PodFailed"), status.get("message"))))


def _unscheduled(condition: Manifest) -> str:
    if condition.get("status") != "False":
        return ""
    return str(condition.get("message") or condition.get("reason", "no node takes it"))
