"""From what was asked for to what will be run: one immutable answer, printed at the start."""

import enum
import os
from dataclasses import dataclass

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.cpus import available_cpus
from diffusion_stage.config.stage import EngineConfig, ParallelConfig, ServingConfig, StageConfig
from diffusion_stage.errors import ConfigError


class ExecutionMode(enum.StrEnum):
    """How requests run.

    Each alone on a device; several in one call of the pipeline; each on one of several devices; or
    step by step, with others joining and leaving between two steps.
    """

    REQUEST_SINGLE = "request"
    REQUEST_FUSED = "request, fused"
    REQUEST_DATA_PARALLEL = "request, data parallel"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class ResolvedRuntime:
    """Derived from the configuration alone; nothing changes it later.

    `max_num_running_reqs` is that of the whole stage, all ranks together. `model_runner` is the
    import path of a `DiffusionModelRunner` of one's own.
    """

    mode: ExecutionMode
    world_size: int
    data_parallel_size: int
    max_num_running_reqs: int
    threads_per_worker: int | None
    is_streaming: bool = False
    model_runner: str | None = None

    def __str__(self) -> str:
        streaming = ", streaming" if self.is_streaming else ""
        return (
            f"mode: {self.mode}{streaming}; {self.world_size} worker(s), "
            f"data parallel {self.data_parallel_size}, "
            f"{self.max_num_running_reqs} request(s) at a time"
        )


def resolve(config: StageConfig, *, default_model_runner: str | None = None) -> ResolvedRuntime:
    """Decide the mode; `default_model_runner` is what the engine's class asks for.

    Raises `ConfigError` for combinations that this version does not run.
    """
    engine, parallel = config.engine, config.parallel
    _check_keys(config.serving)
    if engine.executor == "uni" and parallel.num_gpus != 1:
        raise ConfigError(
            f"--executor uni with --num-gpus {parallel.num_gpus}; allowed: one device, or mp"
        )
    size = _data_parallel_size(parallel)
    mode = _mode(engine, size)
    return ResolvedRuntime(
        mode=mode,
        world_size=parallel.num_gpus,
        data_parallel_size=size,
        max_num_running_reqs=size * engine.max_num_seqs,
        threads_per_worker=_threads(parallel),
        is_streaming=engine.streaming_output,
        model_runner=engine.diffusion_model_runner_cls or default_model_runner,
    )


def _check_keys(serving: ServingConfig) -> None:
    secret, clients = serving.curve_secret_key_file, serving.curve_clients_file
    if (secret is None) != (clients is None):
        raise ConfigError(
            f"--curve-secret-key-file {secret} with --curve-clients-file {clients}; "
            "allowed: both, or neither"
        )


def _mode(engine: EngineConfig, data_parallel_size: int) -> ExecutionMode:
    if engine.step_execution or engine.streaming_output:
        if engine.request_batch_max_wait_ms:
            raise ConfigError(
                f"--request-batch-max-wait-ms {engine.request_batch_max_wait_ms} with step "
                "execution, where requests join at any step; allowed: 0"
            )
        return ExecutionMode.STEP
    if data_parallel_size == 1:
        is_single = engine.max_num_seqs == 1
        return ExecutionMode.REQUEST_SINGLE if is_single else ExecutionMode.REQUEST_FUSED
    if engine.max_num_seqs != 1:
        raise ConfigError(
            f"--max-num-seqs {engine.max_num_seqs} with --data-parallel-size {data_parallel_size}: "
            "each rank runs one request at a time; allowed: 1, or --step-execution"
        )
    return ExecutionMode.REQUEST_DATA_PARALLEL


def check(runtime: ResolvedRuntime, capabilities: Capabilities) -> None:
    """Raises `ConfigError` when the loaded pipeline does not run in this mode."""
    name = capabilities.pipeline
    if runtime.mode is ExecutionMode.STEP and capabilities.step_batch is None:
        raise ConfigError(
            f"{name} does not run step by step; allowed: neither --step-execution nor "
            "--streaming-output"
        )
    if runtime.mode is ExecutionMode.REQUEST_FUSED and capabilities.request_batch is None:
        raise ConfigError(
            f"--max-num-seqs {runtime.max_num_running_reqs}: {name} declares no request batches; "
            "allowed: 1"
        )


def _data_parallel_size(parallel: ParallelConfig) -> int:
    for name in ("tensor", "sequence", "pipeline", "cfg"):
        size = getattr(parallel, f"{name}_parallel_size")
        if size != 1:
            raise ConfigError(
                f"--{name}-parallel-size {size}: this version shares work by data parallelism; "
                "allowed: 1"
            )
    size = parallel.data_parallel_size or parallel.num_gpus
    if size != parallel.num_gpus:
        raise ConfigError(
            f"--data-parallel-size {size} with --num-gpus {parallel.num_gpus}; they must be equal"
        )
    return size


def _threads(parallel: ParallelConfig) -> int | None:
    """OpenMP threads of a CPU worker, so that the workers together use each core once."""
    if parallel.device == "cuda" or "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, available_cpus() // parallel.num_gpus)
