"""The DiffusionStage resource: its names, and its spec as frozen types.

The CRD validates first, with the same fields, bounds and defaults (`tests/contract` compares them).
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from diffusion_operator.manifest import Manifest

GROUP = "diffusionstage.io"
VERSION = "v1alpha1"
KIND = "DiffusionStage"
PLURAL = "diffusionstages"
API_VERSION = f"{GROUP}/{VERSION}"
STAGE_LABEL = f"{GROUP}/stage"
CLIENT_LABEL = f"{GROUP}/client"  # of pods that the NetworkPolicy lets in unless it names others
SUSPECT_LABEL = f"{GROUP}/suspect"  # of nodes that pods were taken away from
CONTAINER = "stage"  # in the pod template, the one that serves

QUANTITY = r"^([0-9]+(\.[0-9]+)?)([KMGTP]i|[kMGTP])?$"

Name = Annotated[str, Field(min_length=1, max_length=253)]
Image = Annotated[str, Field(min_length=1, max_length=512)]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Quantity = Annotated[str, Field(pattern=QUANTITY)] | int
NumberOrPercent = Annotated[str, Field(max_length=4)] | int
Degree = Annotated[int, Field(ge=1, le=64)]
Port = Annotated[int, Field(ge=1024, le=65535)]


class Part(BaseModel):
    """A piece of the spec, under its JSON name."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_default=True
    )


class SecretKeyRef(Part):
    name: Name
    key: Name


class EmptyDirCache(Part):
    size_limit: Quantity | None = None


class ClaimCache(Part):
    claim_name: Name
    sub_path: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    read_only: bool = True


class ClaimTemplateCache(Part):
    size: Quantity
    storage_class_name: Name | None = None
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"] = "ReadWriteOnce"
    retention: Literal["Retain", "Delete"] = "Retain"


class ImageCache(Part):
    reference: Image
    pull_policy: PullPolicy = "IfNotPresent"


class Cache(Part):
    """Exactly one is set; the CRD sees to it."""

    empty_dir: EmptyDirCache | None = None
    persistent_volume_claim: ClaimCache | None = None
    volume_claim_template: ClaimTemplateCache | None = None
    image: ImageCache | None = None


class Model(Part):
    uri: Annotated[
        str,
        Field(
            max_length=1024,
            pattern="^(/.+|hf://[^/]+/.+|pvc://[a-z0-9][-a-z0-9.]*(/.*)?|oci://.+)$",
        ),
    ]
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    auth_secret_ref: SecretKeyRef | None = None
    cache: Cache | None = None


class Engine(Part):
    """Unset means that the stage chooses; no default is repeated here."""

    dtype: Literal["auto", "float32", "float16", "bfloat16"] | None = None
    executor: Literal["uni", "mp"] | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=256)] | None = None
    step_execution: bool | None = None
    streaming_output: bool | None = None
    scheduling_policy: Literal["fifo", "lookahead"] | None = None
    request_batch_max_wait_ms: Annotated[int, Field(ge=0, le=60000)] | None = None
    consumer_drop: Literal["abort", "detach"] | None = None
    max_queue: Annotated[int, Field(ge=1, le=100000)] | None = None
    warmup: bool | None = None


class EnvVar(Part):
    name: Name
    value: Annotated[str, Field(max_length=32768)] | None = None
    value_from: dict[str, Any] | None = None


class Parallelism(Part):
    data: Degree = 1
    tensor: Degree = 1
    sequence: Degree = 1
    pipeline: Degree = 1
    cfg: Annotated[int, Field(ge=1, le=2)] = 1

    @property
    def devices(self) -> int:
        """Devices that this arrangement needs."""
        return self.data * self.tensor * self.sequence * self.pipeline * self.cfg


class Accelerator(Part):
    resource_name: Annotated[
        str, Field(max_length=253, pattern="^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    ] = "nvidia.com/gpu"
    count: Annotated[int, Field(ge=0, le=64)] = 1


class Ports(Part):
    zmq: Port = 5555
    admin: Port = 8080


class Startup(Part):
    timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 3600


class Drain(Part):
    timeout_seconds: Annotated[int, Field(ge=0, le=7170)] = 300


class FailurePolicy(Part):
    hang_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 300
    restart_window_seconds: Annotated[int, Field(ge=60, le=86400)] = 3600
    restart_budget: Annotated[int, Field(ge=0, le=100)] = 5
    replace_pod_after_restarts: Annotated[int, Field(ge=0, le=100)] = 3
    on_budget_exhausted: Literal["KeepRestarting", "Hold"] = "KeepRestarting"


class UpdateStrategy(Part):
    type: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    max_unavailable: NumberOrPercent = 1
    partition: Annotated[int, Field(ge=0, le=1000)] = 0


class DisruptionBudget(Part):
    enabled: bool = True
    max_unavailable: NumberOrPercent = 1


class CurveClient(Part):
    name: Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Za-z0-9][-A-Za-z0-9._]*$")]
    public_key: Annotated[str, Field(pattern=r"^[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}$")]


class Curve(Part):
    """Keys of generation n and n + 1 exist: the next one is known before it is used."""

    clients: tuple[CurveClient, ...] = Field(max_length=256)
    key_generation: Annotated[int, Field(ge=1, le=1000000)] = 1


class NetworkPolicy(Part):
    """Peers are those of networking.k8s.io/v1."""

    enabled: bool = False
    clients: Annotated[tuple[dict[str, Any], ...], Field(max_length=32)] = ()
    scrapers: Annotated[tuple[dict[str, Any], ...], Field(max_length=32)] = ()


class ServiceAccount(Part):
    create: bool = False
    annotations: dict[str, str] = {}


class Spec(Part):
    """Everything a user can ask of a stage."""

    image: Image
    image_pull_policy: PullPolicy | None = None
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    suspend: bool = False
    restart_token: Annotated[str, Field(max_length=64)] | None = None
    model: Model
    engine: Engine = Engine()
    engine_args: tuple[Annotated[str, Field(max_length=4096)], ...] = Field((), max_length=256)
    env: tuple[EnvVar, ...] = Field((), max_length=128)
    parallelism: Parallelism | None = None
    accelerator: Accelerator = Accelerator()
    shared_memory: Annotated[str, Field(pattern=QUANTITY)] | Annotated[int, Field(ge=0)] = "8Gi"
    ports: Ports = Ports()
    startup: Startup = Startup()
    drain: Drain = Drain()
    failure_policy: FailurePolicy = FailurePolicy()
    update_strategy: UpdateStrategy = UpdateStrategy()
    pod_disruption_budget: DisruptionBudget = DisruptionBudget()
    curve: Curve | None = None
    network_policy: NetworkPolicy = NetworkPolicy()
    service_account: ServiceAccount = ServiceAccount()
    pod_template: dict[str, Any] = {}


class Stage(BaseModel):
    """A parsed DiffusionStage; whatever decides works on this."""

    model_config = ConfigDict(frozen=True)

    namespace: str
    name: str
    uid: str
    generation: int
    spec: Spec
    is_held: bool = False
    """The restart budget is used up and the spec is the same since: no pod runs."""
    is_fresh: bool = False
    """It was never reported on nor changed: nothing of it can exist that is not wanted still."""

    @classmethod
    def parse(cls, raw: Manifest) -> "Stage":
        """Raises pydantic's `ValidationError` for a spec that this version does not know."""
        metadata = raw["metadata"]
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            spec=Spec.model_validate(raw["spec"]),
            is_held=raw.get("status", {}).get("hold", {}).get("generation")
            == metadata["generation"],
            is_fresh=metadata["generation"] == 1 and "status" not in raw,
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pods(self) -> int:
        """Pods that should exist now."""
        return 0 if self.spec.suspend or self.is_held else self.spec.replicas

    @property
    def selector(self) -> dict[str, str]:
        """The label of the stage's pods and children; selectors are immutable, so it stays."""
        return {STAGE_LABEL: self.name}

    @property
    def headless(self) -> str:
        """The Service whose records are the ready replicas."""
        return f"{self.name}-pods"
