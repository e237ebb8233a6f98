"""What is tied to one device: choosing it, joining the group, loading the model on it."""

import logging
import os
from collections.abc import Sequence
from typing import Any

import torch

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.imports import import_subclass
from diffusion_stage.errors import AcceleratorError
from diffusion_stage.pipelines import source
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.worker import groups
from diffusion_stage.worker.messages import WorkerSpec
from diffusion_stage.worker.model_output import ModelOutput
from diffusion_stage.worker.runner import DiffusionModelRunner, OnStep
from diffusion_stage.worker.steps import StepOutput

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class DiffusionWorker:
    """One device and its runner. Methods are called one at a time, from one thread."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec

    def init_device(self) -> None:
        """Take the device and join the group. Raises `AcceleratorError` when it cannot be used."""
        try:
            self._device = _device(self._spec)
            torch.zeros(1, device=self._device)
        except RuntimeError as error:
            raise AcceleratorError(f"device {self._spec.device} cannot be used: {error}") from error
        groups.join(self._spec.rank, self._spec.world_size, self._spec.store, self._device)

    def load_model(self) -> Capabilities:
        """Load the pipeline and say what it can do. Raises as `pipelines.loader.load`."""
        dtype = _dtype(self._spec.dtype, self._device)
        kind = _runner_class(self._spec.model_runner)
        self._runner = kind(self._device, dtype, is_streaming=self._spec.is_streaming)
        found = source.find(self._spec.model_uri, self._spec.model_revision)
        capabilities = self._runner.load_model(found, pipeline_class=self._spec.pipeline_class)
        logger.info(
            "rank %d: %s on %s as %s", self._spec.rank, capabilities.pipeline, self._device, dtype
        )
        return capabilities

    def execute_model(self, request: DiffusionRequest, on_step: OnStep) -> ModelOutput:
        """Run one request; raises as `DiffusionModelRunner.execute_model`."""
        return self._runner.execute_model(request, on_step)

    def execute_model_batch(
        self, requests: Sequence[DiffusionRequest], on_step: OnStep
    ) -> list[ModelOutput]:
        """Run several in one call; raises as `DiffusionModelRunner.execute_model_batch`."""
        return self._runner.execute_model_batch(requests, on_step)

    def execute_stepwise(
        self, new: Sequence[DiffusionRequest], cached: Sequence[str], finished: Sequence[str]
    ) -> list[StepOutput]:
        """One step of `new` and `cached`, after forgetting `finished`."""
        return self._runner.execute_stepwise(new, cached, finished)

    def check_device(self) -> None:
        """Raises `AcceleratorError` when the device is lost and only a new process can help."""
        try:
            if self._device.type != "cpu":
                torch.accelerator.synchronize(self._device)
        except RuntimeError as error:
            raise AcceleratorError(f"device {self._spec.device} is lost: {error}") from error

    def report(self) -> dict[str, Any]:
        """Rank, device, process id and device memory in use, in bytes."""
        on_gpu = self._device.type == "cuda"
        used = torch.cuda.memory_allocated(self._device) if on_gpu else 0
        return {
            "rank": self._spec.rank,
            "device": str(self._device),
            "pid": os.getpid(),
            "device_bytes": used,
        }

    def shutdown(self) -> None:
        """Leave the group and drop the model, so that another engine finds the memory free."""
        groups.leave()
        self._runner.release()
        if self._device.type != "cpu":
            torch.accelerator.empty_cache()


def _runner_class(path: str | None) -> type[DiffusionModelRunner]:
    if path is None:
        return DiffusionModelRunner
    found: type[DiffusionModelRunner] = import_subclass(path, DiffusionModelRunner)
    return found


def _device(spec: WorkerSpec) -> torch.device:
    kind = spec.device
    if kind == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        kind = "cpu" if found is None else found.type
    if kind == "cpu":
        return torch.device("cpu")
    device = torch.device(kind, spec.rank)
    torch.accelerator.set_device_index(spec.rank)
    return device


def _dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on accelerators, all of which compute it fast, and float32 on CPUs."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return DTYPES[name]
