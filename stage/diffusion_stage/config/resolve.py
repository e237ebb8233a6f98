"""From what was asked for to what will be run: one immutable answer, printed at the start."""

import enum
import os
from dataclasses import dataclass

from diffusion_stage.config.cpus import available_cpus
from diffusion_stage.config.stage import ParallelConfig, StageConfig
from diffusion_stage.errors import ConfigError


class ExecutionMode(enum.StrEnum):
    """How requests run: each alone on a device, or each on one of several devices."""

    REQUEST_SINGLE = "request"
    REQUEST_DATA_PARALLEL = "request, data parallel"


@dataclass(frozen=True, slots=True)
class ResolvedRuntime:
    """Derived from the configuration alone; nothing changes it later."""

    mode: ExecutionMode
    world_size: int
    data_parallel_size: int
    max_num_running_reqs: int
    threads_per_worker: int | None

    def __str__(self) -> str:
        return (
            f"mode: {self.mode}; {self.world_size} worker(s), "
            f"data parallel {self.data_parallel_size}, "
            f"{self.max_num_running_reqs} request(s) at a time"
        )


def resolve(config: StageConfig) -> ResolvedRuntime:
    """Decide the mode. Raises `ConfigError` for combinations that this version does not run."""
    engine, parallel = config.engine, config.parallel
    if engine.step_execution or engine.streaming_output:
        flag = "--step-execution" if engine.step_execution else "--streaming-output"
        raise ConfigError(f"{flag}: no pipeline of this version runs step by step; leave it out")
    if engine.max_num_seqs != 1:
        raise ConfigError(
            f"--max-num-seqs {engine.max_num_seqs}: no pipeline of this version declares request "
            "batches; allowed: 1"
        )
    if engine.executor == "uni" and parallel.num_gpus != 1:
        raise ConfigError(
            f"--executor uni with --num-gpus {parallel.num_gpus}; allowed: one device, or mp"
        )
    size = _data_parallel_size(parallel)
    return ResolvedRuntime(
        mode=ExecutionMode.REQUEST_SINGLE if size == 1 else ExecutionMode.REQUEST_DATA_PARALLEL,
        world_size=parallel.num_gpus,
        data_parallel_size=size,
        max_num_running_reqs=size,
        threads_per_worker=_threads(parallel),
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
