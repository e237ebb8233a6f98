"""Clients of a stage: one for asyncio programs, one that blocks. Neither needs torch."""

from diffusion_stage.client.async_client import AsyncStageClient
from diffusion_stage.client.calls import StreamEvent
from diffusion_stage.client.generation import Generation, Part
from diffusion_stage.client.keys import CurveKeys
from diffusion_stage.client.status import ReplicaStatus
from diffusion_stage.client.sync_client import StageClient
from diffusion_stage.wire.messages import Progress

__all__ = [
    "AsyncStageClient",
    "CurveKeys",
    "Generation",
    "Part",
    "Progress",
    "ReplicaStatus",
    "StageClient",
    "StreamEvent",
]
