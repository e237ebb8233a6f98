"""The scheduler that a configuration asks for, and what may share its batches."""

from typing import assert_never

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.resolve import ExecutionMode, ResolvedRuntime
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.scheduler.base import BaseScheduler
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.scheduler.policy import make_policy
from diffusion_stage.scheduler.request import RequestScheduler
from diffusion_stage.scheduler.step import StepScheduler


def make_scheduler(config: StageConfig, runtime: ResolvedRuntime) -> BaseScheduler:
    """Not yet initialized."""
    policy = make_policy(config.engine.scheduling_policy)
    if runtime.mode is ExecutionMode.STEP:
        return StepScheduler(policy)
    return RequestScheduler(
        policy,
        is_fused=runtime.mode is ExecutionMode.REQUEST_FUSED,
        max_wait_s=config.engine.request_batch_max_wait_ms / 1000,
    )


def batch_rule(runtime: ResolvedRuntime, capabilities: Capabilities) -> BatchRule | None:
    """None where requests share nothing: any may run beside any."""
    match runtime.mode:
        case ExecutionMode.STEP:
            return BatchRule.for_steps(capabilities)
        case ExecutionMode.REQUEST_FUSED:
            return BatchRule.for_calls(capabilities)
        case ExecutionMode.REQUEST_SINGLE | ExecutionMode.REQUEST_DATA_PARALLEL:
            return None
        case _:
            assert_never(runtime.mode)
