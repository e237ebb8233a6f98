"""What is read of a cluster's objects; fields that are not named here are ignored."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "diffusionstage.io"
RESOURCE = f"diffusionstages.{GROUP}"
KIND = "DiffusionStage"
STAGE_LABEL = f"{GROUP}/stage"
CONTAINER = "stage"


class Part(BaseModel):
    """A piece of an object, under its JSON name."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class Owner(Part):
    kind: str
    name: str
    controller: bool = False


class Metadata(Part):
    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()


class Condition(Part):
    type: str
    status: str
    reason: str = ""
    message: str = ""


# --- the stage ---


class Model(Part):
    uri: str = ""


class Ports(Part):
    zmq: int = 5555
    admin: int = 8080


class FailurePolicy(Part):
    restart_window_seconds: int = 3600


class UpdateStrategy(Part):
    type: str = "RollingUpdate"


class StageSpec(Part):
    replicas: int = 1
    suspend: bool = False
    model: Model = Model()
    ports: Ports = Ports()
    failure_policy: FailurePolicy = FailurePolicy()
    update_strategy: UpdateStrategy = UpdateStrategy()


class Endpoint(Part):
    name: str
    ready: bool = False


class CountedDeath(Part):
    time: datetime
    pod: str = ""
    reason: str = ""
    exit_code: int | None = None


class Restarts(Part):
    window: int = 0
    total: int = 0
    budget_remaining: int | None = None
    recent: tuple[CountedDeath, ...] = ()


class LastFailure(Part):
    time: datetime
    pod: str = ""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    worker_rank: int | None = None
    device: str | None = None
    message: str = ""


class ReplicaStatus(Part):
    """What the operator tells of one replica; from `reason` on, of its last death in its pod."""

    name: str
    state: str
    node: str = ""
    since: datetime | None = None
    restarts: int | None = None
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    worker_rank: int | None = None
    device: str | None = None
    message: str = ""


class StageStatus(Part):
    observed_generation: int = 0
    ready_replicas: int = 0
    endpoints: tuple[Endpoint, ...] = ()
    restarts: Restarts = Restarts()
    last_failure: LastFailure | None = None
    replica_statuses: tuple[ReplicaStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Stage(Part):
    metadata: Metadata
    spec: StageSpec
    status: StageStatus = StageStatus()

    @property
    def wanted(self) -> int:
        return 0 if self.spec.suspend else self.spec.replicas

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)


# --- its pods ---


class Waiting(Part):
    reason: str = ""
    message: str = ""


class Terminated(Part):
    exit_code: int
    signal: int | None = None
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class ContainerState(Part):
    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part):
    name: str
    container_id: Annotated[str, Field(alias="containerID")] = ""
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(Part):
    node_name: str = ""


class PodStatus(Part):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Part):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Takes requests: a pod that was told to stop still has the condition."""
        ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)
        return ready and not self.is_leaving

    @property
    def container(self) -> ContainerStatus:
        """The one that serves; before the kubelet tells of it, one that is nothing yet."""
        found = (one for one in self.status.container_statuses if one.name == CONTAINER)
        return next(found, ContainerStatus(name=CONTAINER))

    @property
    def is_running(self) -> bool:
        return self.container.state.running is not None

    @property
    def failure(self) -> str:
        """Why the pod as a whole failed, as of an eviction; empty while it has not."""
        if self.status.phase != "Failed":
            return ""
        reason = self.status.reason
        return reason if reason.isalnum() else "PodFailed"  # as `OutOfnvidia.com/gpu`

    def belongs_to(self, stage: Metadata) -> bool:
        """It is a replica of that stage; the label alone makes none."""
        return self.metadata.namespace == stage.namespace and any(
            (owner.kind, owner.name, owner.controller) == ("StatefulSet", stage.name, True)
            for owner in self.metadata.owner_references
        )


# --- its Events ---


class Regarding(Part):
    uid: str = ""


class Series(Part):
    last_observed_time: datetime | None = None


class Event(Part):
    metadata: Metadata
    regarding: Regarding = Regarding()
    reason: str = ""
    note: str = ""
    type: str = ""
    event_time: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    series: Series | None = None

    @property
    def last_seen(self) -> datetime | None:
        times = (
            self.series.last_observed_time if self.series else None,
            self.deprecated_last_timestamp,
            self.event_time,
            self.metadata.creation_timestamp,
        )
        return next(filter(None, times), None)
