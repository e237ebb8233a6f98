"""The small requests that a stage runs before it says that it is ready."""

import logging
import time
from collections.abc import Iterable
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.errors import (
    DeviceMemoryError,
    EngineDiedError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from diffusion_stage.outputs import ChunkReady, Completed, Failed, StreamEvent
from diffusion_stage.request import DiffusionRequest

logger = logging.getLogger(__name__)

STEPS = 2
TOKENS_PER_SIDE = 8


def should_skip_warmup(config: StageConfig, capabilities: Capabilities) -> tuple[bool, str]:
    """Whether to skip the warm-up, and why."""
    if not config.engine.warmup:
        return True, "--no-warmup"
    needed = [
        name
        for name, parameter in capabilities.parameters.items()
        if parameter.required and name != "prompt"
    ]
    if needed:
        return True, f"{capabilities.pipeline} needs {', '.join(needed)}"
    return False, "a warm-up request runs on each rank"


def dummy_request(rank: int, capabilities: Capabilities) -> DiffusionRequest:
    """The smallest request that passes through every part of the pipeline."""
    side = TOKENS_PER_SIDE * capabilities.size_multiple
    if capabilities.max_size is not None:
        side = min(side, capabilities.max_size)
    wanted: dict[str, Any] = {
        "prompt": "warm-up",
        "num_inference_steps": STEPS,
        "height": side,
        "width": side,
    }
    params = {name: value for name, value in wanted.items() if name in capabilities.parameters}
    return DiffusionRequest(
        request_id=f"warm-up {rank}",
        attempt=1,
        params=params,
        seed=0,
        arrived_at=time.monotonic(),
    )


def check_warmup(events: Iterable[StreamEvent]) -> None:
    """What came of the warm-up requests. Raises `DeviceMemoryError` or `EngineDiedError`."""
    for event in events:
        match event:
            case Failed(error=InvalidArgumentError() as error):
                logger.warning("no warm-up, the first request will be slow: %s", error)
            case Failed(error=ResourceExhaustedError() as error):
                raise DeviceMemoryError(f"warm-up: {error}") from error
            case Failed(error=error):
                raise EngineDiedError(f"warm-up: {type(error).__name__}: {error}") from error
            case Completed(output=output) | ChunkReady(output=output):
                output.release()
