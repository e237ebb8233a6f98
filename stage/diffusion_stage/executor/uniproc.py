"""One worker in the engine's own process: no second process, no shared memory."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.resolve import ExecutionMode, ResolvedRuntime
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
from diffusion_stage.outputs import (
    BatchRunnerOutput,
    DiffusionOutput,
    RunnerOutput,
    StepBatch,
)
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.wire import tensors
from diffusion_stage.worker import packing
from diffusion_stage.worker.messages import WorkerSpec
from diffusion_stage.worker.model_output import ModelOutput
from diffusion_stage.worker.runner import OnStep
from diffusion_stage.worker.steps import StepOutput, batch_size
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
        self._seeds: dict[str, int] = {}
        self._reached: int | None = None
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
                is_streaming=self._runtime.is_streaming,
                model_runner=self._runtime.model_runner,
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
        requests = [new.request for new in output.scheduled_new_reqs]
        if self._runtime.mode is ExecutionMode.REQUEST_FUSED and len(requests) > 1:
            return BatchRunnerOutput(self._run_together(requests))
        return BatchRunnerOutput([self._run(request) for request in requests])

    def execute_step(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        new = [each.request for each in output.scheduled_new_reqs]
        self._seeds |= {each.request_id: each.seed for each in new}
        cached = output.scheduled_cached_reqs.request_ids
        start = time.perf_counter()
        with self._forward(self._reached):
            taken = self._wrapper.execute_stepwise(new, cached, tuple(output.finished_req_ids))
            step_ms = 1000 * (time.perf_counter() - start)
            self._reached = max((t.step_index for t in taken if not t.is_finished), default=None)
            outputs = [self._step_output(each) for each in taken]
        for request_id in output.finished_req_ids.difference(each.request_id for each in new):
            self._seeds.pop(request_id, None)
        size = batch_size(taken)
        batches = [StepBatch(size, step_ms)] if size else []
        return BatchRunnerOutput(outputs, step_id=output.step_id, batches=batches)

    def _step_output(self, taken: StepOutput) -> RunnerOutput:
        request_id, result = taken.request_id, None
        if taken.error is not None:
            if isinstance(taken.error, InternalError):
                logger.error("request %s failed", request_id, exc_info=taken.error)
                self._check_device()
            return RunnerOutput(request_id, error=taken.error)
        if taken.output is not None:
            try:
                result = _result(taken.output, self._seeds[request_id])
            except RequestError as error:
                return RunnerOutput(request_id, error=error)
        return RunnerOutput(
            request_id,
            result=result,
            step_index=taken.step_index,
            total_steps=taken.total_steps,
            is_finished=taken.is_finished,
        )

    @contextlib.contextmanager
    def _forward(self, step: int | None = None) -> Iterator[None]:
        """The device is busy."""
        self._busy_since = self._progress_at = time.monotonic()
        self._step = step
        self._is_idle.clear()
        try:
            yield
        finally:
            self._busy_since = self._step = None
            self._is_idle.set()

    def _run(self, request: DiffusionRequest) -> RunnerOutput:
        try:
            with self._forward():
                self._check_wanted(request.request_id)
                output = self._wrapper.execute_model(request, self._on_step(request.request_id))
                return RunnerOutput(request.request_id, result=_result(output, request.seed))
        except RequestError as error:
            if isinstance(error, InternalError):
                logger.exception("request %s failed", request.request_id)
                self._check_device()
            return RunnerOutput(request.request_id, error=error)
        finally:
            self._cancelled.discard(request.request_id)

    def _run_together(self, requests: list[DiffusionRequest]) -> list[RunnerOutput]:
        """All in one call; if that fails, each alone, so that only one of them pays for it."""
        ids = [request.request_id for request in requests]

        def on_step(step: int, total_steps: int) -> None:
            self._progress_at, self._step = time.monotonic(), step
            for request_id in ids:
                self._on_progress(request_id, step, total_steps)
            if self._cancelled.issuperset(ids):
                raise CancelledError("cancelled between two steps")

        try:
            with self._forward():
                outputs = self._wrapper.execute_model_batch(requests, on_step)
                return [
                    RunnerOutput(request.request_id, result=_result(output, request.seed))
                    for request, output in zip(requests, outputs, strict=True)
                ]
        except RequestError as error:
            logger.warning("a call of %d requests failed, each runs alone: %s", len(ids), error)
            return [self._run(request) for request in requests]

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

    def collective_rpc(
        self,
        method: str,
        args: dict[str, Any],
        timeout_s: float | None = None,  # noqa: ARG002  # see the class
    ) -> Future[list[Any]]:
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


def _result(output: ModelOutput, seed: int) -> DiffusionOutput:
    start = time.perf_counter()
    specs, arrays = packing.materialize(output)
    metrics = {
        "forward_ms": output.forward_ms,
        "pack_ms": 1000 * (time.perf_counter() - start),
    }
    data = tuple(tensors.frame(array) for array in arrays)
    return DiffusionOutput(specs, data, seed=seed, metrics=metrics)
