"""The process group of a stage's workers: NCCL on GPUs, gloo on CPUs."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = timedelta(hours=1)  # the stage ends a start that takes too long


def join(rank: int, world_size: int, store: str, device: torch.device) -> None:
    """Join the group and wait for the others; a group of one needs none.

    They meet at a file (`store`), not at a port that another process could take first.
    """
    if world_size == 1:
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    backend = "nccl" if device.type == "cuda" else "gloo"
    meeting = torch._C._distributed_c10d.FileStore(store, world_size)
    dist.init_process_group(
        backend, store=meeting, rank=rank, world_size=world_size, timeout=TIMEOUT
    )
    dist.barrier()


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
