"""What `diffusion-stage serve` is told, in small groups; every field is a command line flag."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
IMPORT_PATH = r"[\w.]+:\w+"
ImportPath = Annotated[str, Field(pattern=f"^{IMPORT_PATH}$")]
PolicyName = Literal["fifo", "lookahead"]
Port = Annotated[int, Field(ge=0, le=65_535)]


def _check_executor(value: str) -> str:
    if value in ("uni", "mp") or re.fullmatch(IMPORT_PATH, value):
        return value
    raise ValueError("allowed: 'uni' or 'mp', or module:Class of a DiffusionExecutor")


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelConfig(_Group):
    """Which model, and how it is loaded. `dtype` auto: bfloat16 on accelerators, else float32."""

    model: str
    revision: str | None = None
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    pipeline_class: str | None = None


class ParallelConfig(_Group):
    """The devices of the pod and how they share work; their product must be `num_gpus`."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    num_gpus: Positive = 1
    data_parallel_size: Positive | None = None
    tensor_parallel_size: Positive = 1
    sequence_parallel_size: Positive = 1
    pipeline_parallel_size: Positive = 1
    cfg_parallel_size: Positive = 1


class EngineConfig(_Group):
    """How requests run.

    `max_num_seqs`: at a time on one device. `max_queue` bounds those that wait, and
    `request_batch_max_wait_ms` how long the first of a batch waits for others. `consumer_drop`:
    what becomes of a request whose client is gone.

    Import paths are `module:Class`: of a `DiffusionExecutor` in place of `uni` and `mp`, of a
    `DiffusionEngine`, of a `DiffusionModelRunner`, and of methods to add to workers.
    """

    executor: Annotated[str, AfterValidator(_check_executor)] = "mp"
    engine_class: ImportPath | None = None
    diffusion_model_runner_cls: ImportPath | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=256)] = 1
    max_queue: Annotated[int, Field(ge=1, le=100_000)] = 64
    step_execution: bool = False
    streaming_output: bool = False
    scheduling_policy: PolicyName = "fifo"
    request_batch_max_wait_ms: Annotated[float, Field(ge=0, le=60_000)] = 0
    consumer_drop: Literal["abort", "detach"] = "abort"
    warmup: bool = True
    worker_extension: ImportPath | None = None


class ServingConfig(_Group):
    """Where the stage listens, its name, and how much one client may ask; port 0: a free one.

    With both `curve` files it speaks CURVE alone: the first has its secret key, the second a line
    `NAME PUBLICKEY` for each client that may connect, as it stands at the time.
    """

    name: str | None = None
    host: str = "0.0.0.0"  # a pod serves its network; NetworkPolicy narrows it
    port: Port = 5555
    admin_port: Port = 8080
    max_client_requests: Positive = 1024
    curve_secret_key_file: str | None = None
    curve_clients_file: str | None = None
    termination_log: str = "/dev/termination-log"


class TimeoutConfig(_Group):
    """Limits in seconds: to be ready, to finish on SIGTERM, and without any step progress."""

    startup_timeout_s: Seconds = 3600
    drain_timeout_s: Annotated[float, Field(ge=0, le=86_400)] = 300
    hang_timeout_s: Seconds = 300


class StageConfig(_Group):
    """The whole configuration of one stage process."""

    model: ModelConfig
    parallel: ParallelConfig = ParallelConfig()
    engine: EngineConfig = EngineConfig()
    serving: ServingConfig = ServingConfig()
    timeouts: TimeoutConfig = TimeoutConfig()
