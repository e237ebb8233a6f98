"""The one door to a worker: makes it, with its extension, and calls its methods by name."""

import logging
from collections.abc import Sequence
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.imports import import_class
from diffusion_stage.errors import ConfigError, InvalidArgumentError
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.worker.messages import WorkerSpec
from diffusion_stage.worker.model_output import ModelOutput
from diffusion_stage.worker.runner import OnStep
from diffusion_stage.worker.steps import StepOutput
from diffusion_stage.worker.worker import DiffusionWorker

CONTROLS = ("check_device", "report")

logger = logging.getLogger(__name__)


class WorkerWrapperBase:
    """Owns one `DiffusionWorker`, in a process of its own (`mp`) or in the engine's (`uni`).

    An extension (`worker_extension`, `module:Class`) adds methods that control calls may name; one
    that the worker has already is a `ConfigError`.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        kind = _worker_class(spec.worker_extension)
        self._worker = kind(spec)
        added = [n for n in dir(kind) if not n.startswith("_") and not hasattr(DiffusionWorker, n)]
        self._callable = frozenset({*CONTROLS, *added})

    def start(self) -> Capabilities:
        """Take the device and load the model. Raises a `FatalError`."""
        self._worker.init_device()
        return self._worker.load_model()

    def execute_model(self, request: DiffusionRequest, on_step: OnStep) -> ModelOutput:
        return self._worker.execute_model(request, on_step)

    def execute_model_batch(
        self, requests: Sequence[DiffusionRequest], on_step: OnStep
    ) -> list[ModelOutput]:
        return self._worker.execute_model_batch(requests, on_step)

    def execute_stepwise(
        self, new: Sequence[DiffusionRequest], cached: Sequence[str], finished: Sequence[str]
    ) -> list[StepOutput]:
        return self._worker.execute_stepwise(new, cached, finished)

    def check_device(self) -> None:
        self._worker.check_device()

    def execute_method(self, method: str, args: dict[str, Any]) -> Any:
        """Call a method that is offered. Raises `InvalidArgumentError` for other names."""
        if method not in self._callable:
            names = ", ".join(sorted(self._callable))
            raise InvalidArgumentError(f"method {method!r}; allowed: {names}", field="method")
        return getattr(self._worker, method)(**args)

    def shutdown(self) -> None:
        self._worker.shutdown()


def _worker_class(extension: str | None) -> type[DiffusionWorker]:
    if extension is None:
        return DiffusionWorker
    added = import_class(extension)
    conflicts = sorted(
        name for name in vars(added) if not name.startswith("__") and hasattr(DiffusionWorker, name)
    )
    if conflicts:
        raise ConfigError(f"worker extension {extension} redefines {', '.join(conflicts)}")
    return type(f"DiffusionWorkerWith{added.__name__}", (DiffusionWorker, added), {})
