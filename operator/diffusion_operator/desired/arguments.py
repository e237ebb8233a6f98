"""The command line of `diffusion-stage serve`, as the spec wants it."""

from diffusion_operator.api import Accelerator, Engine, Parallelism, Spec
from diffusion_operator.desired.curve import curve_arguments
from diffusion_operator.desired.model import location

CUDA_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")  # ROCm builds of torch call theirs cuda too


def arguments(spec: Spec) -> list[str]:
    """Always in this order; the user's own come last and so win."""
    return [
        "serve",
        f"--model={location(spec.model)}",
        *_given("revision", spec.model.revision),
        f"--port={spec.ports.zmq}",
        f"--admin-port={spec.ports.admin}",
        f"--device={device(spec.accelerator)}",
        f"--num-gpus={workers(spec)}",
        *_degrees(spec.parallelism),
        *_engine(spec.engine),
        f"--startup-timeout-s={spec.startup.timeout_seconds}",
        f"--drain-timeout-s={spec.drain.timeout_seconds}",
        f"--hang-timeout-s={spec.failure_policy.hang_timeout_seconds}",
        *curve_arguments(spec.curve),
        *spec.engine_args,
    ]


def device(accelerator: Accelerator) -> str:
    """The kind of device by the name of the resource; the stage finds out about others."""
    if accelerator.count == 0:
        return "cpu"
    return "cuda" if accelerator.resource_name in CUDA_RESOURCES else "auto"


def workers(spec: Spec) -> int:
    """One for each device; in CPU mode there are as many as the parallelism needs."""
    if spec.accelerator.count > 0:
        return spec.accelerator.count
    return 1 if spec.parallelism is None else spec.parallelism.devices


def _degrees(parallelism: Parallelism | None) -> list[str]:
    if parallelism is None:
        return []
    others = {
        "tensor": parallelism.tensor,
        "sequence": parallelism.sequence,
        "pipeline": parallelism.pipeline,
        "cfg": parallelism.cfg,
    }
    return [
        f"--data-parallel-size={parallelism.data}",
        *(f"--{name}-parallel-size={degree}" for name, degree in others.items() if degree != 1),
    ]


def _engine(engine: Engine) -> list[str]:
    return [
        *_given("dtype", engine.dtype),
        *_given("executor", engine.executor),
        *_given("max-num-seqs", engine.max_num_seqs),
        *(["--step-execution"] if engine.step_execution else []),
        *(["--streaming-output"] if engine.streaming_output else []),
        *_given("scheduling-policy", engine.scheduling_policy),
        *_given("request-batch-max-wait-ms", engine.request_batch_max_wait_ms),
        *_given("consumer-drop", engine.consumer_drop),
        *_given("max-queue", engine.max_queue),
        *(["--no-warmup"] if engine.warmup is False else []),
    ]


def _given(flag: str, value: str | int | None) -> list[str]:
    return [] if value is None else [f"--{flag}={value}"]
