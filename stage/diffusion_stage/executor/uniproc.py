"""One worker in the engine's own process: no second process, no shared memory."""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.resolve import ResolvedRuntime
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.errors import (
    AcceleratorError,
    CancelledError,
    EngineDeadError,
    FatalError,
    InternalError,
    RequestError,
)
from diffusion_stage.executor.executor import DiffusionExecutor, OnProgress, RankActivity
from diffusion_stage.outputs import BatchRunnerOutput, DiffusionOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.wire import tensors
from diffusion_stage.worker import packing
from diffusion_stage.worker.messages import WorkerSpec
from diffusion_stage.worker.runner import OnStep
from diffusion_stage.worker.wrapper import WorkerWrapperBase

logger = logging.getLogger(__name__)


class UniProcDiffusionExecutor(DiffusionExecutor):
    """Runs forwards in the thread that calls `execute_batch`.

    Time limits of control calls are not enforced: a hung forward blocks the loop, and only the
    stage's watchdog ends it.
    """

    def __init__(
        self, config: StageConfig, runtime: ResolvedRuntime, on_progress: OnProgress
    ) -> None:
        super().__init__(config, runtime, on_progress)
        self._awake = threading.Event()
        self._cancelled: set[str] = set()
        self._failure: FatalError | None = None
        self._is_shut_down = False
        self._stopping = threading.Lock()
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._busy_since: float | None = None
        self._progress_at = time.monotonic()
        self._step: int | None = None
        model, parallel = self._config.model, self._config.parallel
        self._device = f"{parallel.device}:0"
        self._wrapper = WorkerWrapperBase(
            WorkerSpec(
                rank=0,
                world_size=1,
                device=parallel.device,
                dtype=model.dtype,
                model_uri=model.model,
                model_revision=model.revision,
                pipeline_class=model.pipeline_class,
                worker_extension=self._config.engine.worker_extension,
                store="",
            )
        )
        self._is_started = False

    def start(self) -> Capabilities:
        """As the base class says. The start-up limit is not enforced."""
        capabilities = self._wrapper.start()
        self._is_started = True
        return capabilities

    def execute_batch(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        self._cancelled.difference_update(output.finished_req_ids)
        return BatchRunnerOutput([self._run(new.request) for new in output.scheduled_new_reqs])

    def _run(self, request: DiffusionRequest) -> RunnerOutput:
        self._busy_since = self._progress_at = time.monotonic()
        self._is_idle.clear()
        try:
            self._check_wanted(request.request_id)
            output = self._wrapper.execute_model(request, self._on_step(request.request_id))
            start = time.perf_counter()
            specs, arrays = packing.materialize(output)
        except RequestError as error:
            if isinstance(error, InternalError):
                logger.exception("request %s failed", request.request_id)
                self._check_device()
            return RunnerOutput(request.request_id, error=error)
        finally:
            self._busy_since = self._step = None
            self._is_idle.set()
            self._cancelled.discard(request.request_id)
        metrics = {
            "forward_ms": output.forward_ms,
            "pack_ms": 1000 * (time.perf_counter() - start),
        }
        data = tuple(tensors.frame(array) for array in arrays)
        result = DiffusionOutput(specs, data, seed=request.seed, metrics=metrics)
        return RunnerOutput(request.request_id, result=result)

    def _on_step(self, request_id: str) -> OnStep:
        def on_step(step: int, total_steps: int) -> None:
            self._progress_at, self._step = time.monotonic(), step
            self._on_progress(request_id, step, total_steps)
            self._check_wanted(request_id)

        return on_step

    def _check_wanted(self, request_id: str) -> None:
        if request_id in self._cancelled:
            raise CancelledError("cancelled between two steps")

    def _check_device(self) -> None:
        """A sticky accelerator fault ends the engine; any other error stays with its request."""
        try:
            self._wrapper.check_device()
        except AcceleratorError as error:
            self._failure = error
            raise

    def wait(self, timeout_s: float | None) -> BatchRunnerOutput:
        self._awake.wait(timeout_s)
        self._awake.clear()
        return BatchRunnerOutput()

    def wake(self) -> None:
        self._awake.set()

    def cancel(self, request_ids: Iterable[str]) -> None:
        self._cancelled.update(request_ids)

    def collective_rpc(self, method: str, args: dict[str, Any]) -> Future[list[Any]]:
        future: Future[list[Any]] = Future()
        try:
            future.set_result([self._wrapper.execute_method(method, args)])
        except Exception as error:
            logger.exception("method %s failed", method)
            future.set_exception(InternalError(f"{method}: {type(error).__name__}: {error}"))
        return future

    def activity(self) -> list[RankActivity]:
        return [
            RankActivity(
                rank=0,
                device=self._device,
                busy_since=self._busy_since,
                progress_at=self._progress_at,
                heard_at=time.monotonic(),
                step=self._step,
            )
        ]

    def check_health(self) -> None:
        if self._failure is not None:
            raise EngineDeadError(str(self._failure))
        if self._is_shut_down:
            raise EngineDeadError("the executor is shut down")

    def shutdown(self, grace_s: float = 5.0) -> None:
        """As the base class says; but a forward that makes no step ends with the process only."""
        with self._stopping:
            if self._is_shut_down:
                return
            self._is_shut_down = True
        self._is_idle.wait(grace_s)
        if self._is_started:
            self._wrapper.shutdown()
