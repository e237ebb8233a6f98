"""The engine: what others may ask of it, from any thread, and its one busy loop."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.imports import import_subclass
from diffusion_stage.config.resolve import ExecutionMode, ResolvedRuntime, check, resolve
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.engine.controls import ControlCalls
from diffusion_stage.engine.figures import EngineFigures, EngineLoad
from diffusion_stage.engine.policy import batch_rule, make_scheduler
from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.engine.warmup import check_warmup, dummy_request, should_skip_warmup
from diffusion_stage.errors import (
    CancelledError,
    DeadlineExceededError,
    EngineDeadError,
    EngineDiedError,
    FatalError,
    RequestError,
    ResourceExhaustedError,
    UnavailableError,
)
from diffusion_stage.executor.executor import (
    DiffusionExecutor,
    OnProgress,
    RankActivity,
    make_executor,
)
from diffusion_stage.outputs import (
    BatchRunnerOutput,
    Completed,
    DiffusionOutput,
    Failed,
    RunnerOutput,
    StepProgress,
)
from diffusion_stage.request import DiffusionRequest, DiffusionRequestStatus
from diffusion_stage.scheduler.base import BaseScheduler
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput

logger = logging.getLogger(__name__)

IDLE_S = 1.0  # the longest sleep of the loop, which is also the pulse of its liveness
Notify = Callable[[OutputStream], None]
MakeExecutor = Callable[[StageConfig, ResolvedRuntime, OnProgress], DiffusionExecutor]


class DiffusionEngine:
    """Owns the scheduler and the executor; every admitted request ends exactly once.

    `run` is the busy loop: all worker calls and control calls pass through it, in the thread that
    calls it. Everything else is thread-safe. A subclass (`engine_class`) may name the class of the
    workers' model runner, `module:Class`; the configuration's own choice wins.
    """

    default_diffusion_model_runner_cls: ClassVar[str | None] = None

    def __init__(
        self,
        config: StageConfig,
        runtime: ResolvedRuntime,
        *,
        scheduler: BaseScheduler | None = None,
        make_executor: MakeExecutor = make_executor,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self._lock = threading.RLock()
        self._streams: dict[str, OutputStream] = {}
        self._aborts: queue.SimpleQueue[tuple[OutputStream, RequestError]] = queue.SimpleQueue()
        self._controls = ControlCalls()
        self._refusal: RequestError | None = UnavailableError("the model is loading")
        self.capabilities: Capabilities | None = None
        self._is_stopped = threading.Event()
        self.ticked_at = time.monotonic()
        self.lost_requests = 0
        self.figures = EngineFigures()
        self._pending: DiffusionSchedulerOutput | None = None
        self._is_stepping = runtime.mode is ExecutionMode.STEP
        self._scheduler = scheduler or make_scheduler(config, runtime)
        self._scheduler.initialize(runtime.max_num_running_reqs)
        self._executor = make_executor(config, runtime, self._progress)
        self._execute = {
            ExecutionMode.REQUEST_SINGLE: self._executor.execute_batch,
            ExecutionMode.REQUEST_FUSED: self._executor.execute_batch,
            ExecutionMode.REQUEST_DATA_PARALLEL: self._executor.execute_request,
            ExecutionMode.STEP: self._executor.execute_step,
        }[runtime.mode]

    @classmethod
    def make_engine(
        cls, config: StageConfig, scheduler: BaseScheduler | None = None
    ) -> "DiffusionEngine":
        """An engine of the configured class, loaded and warm.

        Raises the `FatalError` at the root of a failed start, after closing what was opened.
        """
        engine = cls.of(config, scheduler)
        engine.start()
        return engine

    @classmethod
    def of(cls, config: StageConfig, scheduler: BaseScheduler | None = None) -> "DiffusionEngine":
        """An engine of the configured class, not started. Raises `ConfigError`."""
        path = config.engine.engine_class
        kind = cls if path is None else import_subclass(path, DiffusionEngine)
        runner = kind.default_diffusion_model_runner_cls
        runtime = resolve(config, default_model_runner=runner)
        engine: DiffusionEngine = kind(config, runtime, scheduler=scheduler)
        return engine

    def start(self) -> None:
        """Load the model and warm up. Raises as `make_engine`."""
        logger.info("%s", self.runtime)
        try:
            self.capabilities = self._executor.start()
            check(self.runtime, self.capabilities)
            self._scheduler.use_rule(batch_rule(self.runtime, self.capabilities))
            self._run_startup_warmup(self.capabilities)
        except BaseException as error:
            self.close(grace_s=0)
            if isinstance(error, FatalError) or not isinstance(error, Exception):
                raise
            raise EngineDiedError(f"the start: {type(error).__name__}: {error}") from error
        with self._lock:
            if not self._is_stopped.is_set():
                self._refusal = None

    def _run_startup_warmup(self, capabilities: Capabilities) -> None:
        skip, reason = should_skip_warmup(self.config, capabilities)
        logger.info("warm-up %s: %s", "skipped" if skip else "runs", reason)
        if skip:
            return
        start = time.monotonic()
        streams = [
            self._admit(dummy_request(rank, capabilities), lambda _stream: None)
            for rank in range(self.runtime.data_parallel_size)
        ]
        while self._scheduler.has_work and not self._is_stopped.is_set():
            self._tick()
        check_warmup(event for stream in streams for event in stream.take())
        logger.info("warm-up done in %.2f s", time.monotonic() - start)

    # What others may ask, from any thread.

    def admission(self) -> Capabilities:
        """What requests are validated against. Raises `UnavailableError` while none is admitted."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal.with_traceback(None)
        assert self.capabilities is not None
        return self.capabilities

    def add_request(self, request: DiffusionRequest, notify: Notify) -> OutputStream:
        """Admit a request; its events come on the returned stream, of which one is its end.

        Raises `AlreadyExistsError`, `ResourceExhaustedError` when the queue is full, and
        `UnavailableError` while loading, draining or dead; the request then leaves no trace.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal.with_traceback(None)
            limit = self.config.engine.max_queue
            free = self.runtime.max_num_running_reqs - self._scheduler.num_running_reqs
            if self._scheduler.num_waiting_reqs >= limit + free:
                raise ResourceExhaustedError(f"{limit} requests wait already; allowed: {limit}")
            stream = self._admit(request, notify)
        self._executor.wake()
        return stream

    def _admit(self, request: DiffusionRequest, notify: Notify) -> OutputStream:
        self._scheduler.add_request(request)
        stream = self._streams[request.request_id] = OutputStream(request.request_id, notify)
        return stream

    def abort(self, stream: OutputStream, error: RequestError | None = None) -> None:
        """End a stream's request with `error` (default: `CancelledError`), unless it has ended.

        The stream names the attempt: another request with the same id is left alone.
        """
        with self._lock:
            if self._streams.get(stream.request_id) is not stream:
                return
            self._aborts.put((stream, error or CancelledError("cancelled by its caller")))
        self._executor.wake()

    def collective_rpc(
        self, method: str, args: dict[str, Any], timeout_s: float | None = None
    ) -> Future[list[Any]]:
        """Call a worker method on every rank, between forwards; values come in rank order.

        The future fails with `EngineDeadError` when the engine ends before the call, otherwise as
        that of `DiffusionExecutor.collective_rpc`.
        """
        future = self._controls.add(method, args, timeout_s)
        self._executor.wake()
        return future

    def refuse(self, error: RequestError) -> None:
        """Admit nothing more; what is admitted goes on."""
        with self._lock:
            self._refusal = error
        self._executor.wake()

    @property
    def is_refusing(self) -> bool:
        return self._refusal is not None

    def load(self) -> EngineLoad:
        with self._lock:
            scheduler = self._scheduler
            return EngineLoad(
                waiting=scheduler.num_waiting_reqs,
                running=scheduler.num_running_reqs,
                materializing=scheduler.num_materializing_reqs,
            )

    def activity(self) -> list[RankActivity]:
        return self._executor.activity()

    def check_health(self) -> None:
        """Raises `EngineDeadError` once the engine cannot serve any more."""
        with self._lock:
            if isinstance(self._refusal, EngineDeadError):
                raise self._refusal
        self._executor.check_health()

    # The loop.

    def run(self, is_done: Callable[[], bool]) -> None:
        """Serve until `is_done()` while there is no work, or until another thread ends the engine.

        Raises the `FatalError` that ended it here, after every request got its end.
        """
        try:
            while not self._is_stopped.is_set() and not (is_done() and not self._has_work()):
                self._tick()
        except FatalError as error:
            if self._is_stopped.is_set():  # whoever ended it took the workers away, and tells why
                return
            self.fail(error)
            raise
        except Exception as error:
            if self._is_stopped.is_set():
                return
            logger.exception("the engine's loop failed")
            died = EngineDiedError(f"the engine's loop: {type(error).__name__}: {error}")
            self.fail(died)
            raise died from error

    def _has_work(self) -> bool:
        with self._lock:
            return self._scheduler.has_work

    def _tick(self) -> None:
        """One turn: aborts and deadlines, control calls, schedule, execute, deliver."""
        self.ticked_at = time.monotonic()
        with self._lock:
            had_work = self._scheduler.has_work
            self._end_unwanted()
            scheduled, until = self._schedule()
            is_over = had_work and not self._scheduler.has_work  # `run` may be done: no sleep first
        self._start_controls()
        outputs = self._execute(scheduled) if scheduled else BatchRunnerOutput()
        self._deliver(outputs)
        self._deliver(self._executor.wait(0 if outputs or is_over else self._sleep_s(until)))

    def _schedule(self) -> tuple[DiffusionSchedulerOutput | None, float | None]:
        """What to execute now, if anything, and when to look again at the latest.

        In step mode there is a turn of the scheduler for each step of the workers.
        """
        if self._pending is not None:
            return None, None
        until = self._scheduler.admission_wait_until(time.monotonic())
        scheduled = self._scheduler.schedule(admit=until is None)
        self.figures.scheduled(scheduled.scheduled_new_reqs, time.monotonic())
        if self._is_stepping and (scheduled.has_news or scheduled.scheduled_request_ids):
            self._pending = scheduled
            return scheduled, None
        return (scheduled if scheduled.has_news else None), until

    def _end_unwanted(self) -> None:
        """End what was aborted, and what is too late."""
        while not self._aborts.empty():
            stream, error = self._aborts.get()
            if self._streams.get(stream.request_id) is stream:
                self._end([stream.request_id], DiffusionRequestStatus.FINISHED_ABORTED, error)
        for request_id in self._scheduler.overdue(time.monotonic()):
            error = DeadlineExceededError("its deadline passed before it was done")
            self._end([request_id], DiffusionRequestStatus.FINISHED_ERROR, error)

    def _end(
        self, request_ids: list[str], status: DiffusionRequestStatus, error: RequestError
    ) -> None:
        running = [i for i in request_ids if self._scheduler.is_running(i)]
        for request_id in self._scheduler.finish_requests(request_ids, status, error):
            self._finalize(request_id)
        self._executor.cancel(running)

    def _start_controls(self) -> None:
        for call in self._controls.take():
            call.start(self._executor.collective_rpc)

    def _sleep_s(self, until: float | None) -> float:
        with self._lock:
            ends = [until, self._scheduler.next_deadline()]
        now = time.monotonic()
        return max(0.0, min([IDLE_S, *(end - now for end in ends if end is not None)]))

    def _deliver(self, outputs: BatchRunnerOutput) -> None:
        with self._lock:
            self._end_unwanted()  # an abort is valid until its request is handed over
            self.figures.stepped(outputs.batches)
            done = None
            if self._pending is not None and outputs.step_id == self._pending.step_id:
                done, self._pending = self._pending, None
            news = {o.request_id: o for o in outputs.outputs}
            for request_id in self._scheduler.update_from_output(outputs, done):
                end = news.pop(request_id, None)
                self._finalize(request_id, end.result if end else None)
            for request_id, each in news.items():
                self._pass_on(request_id, each)

    def _pass_on(self, request_id: str, news: RunnerOutput) -> None:
        """What a live request's consumer hears before the end."""
        if news.step_index is None or not self._scheduler.has_started(request_id):
            return
        stream = self._streams[request_id]
        stream.put_progress(StepProgress(news.step_index, news.total_steps))
        if news.result is not None:
            stream.put_chunk(news.result)

    def _finalize(self, request_id: str, result: DiffusionOutput | None = None) -> None:
        """Forget a finished request and tell its consumer; called once for each, under the lock."""
        state = self._scheduler.pop_request_state(request_id)
        stream = self._streams.pop(request_id)
        if result is not None:
            stream.put_end(Completed(result))
        else:
            assert state.error is not None
            stream.put_end(Failed(state.error))

    def _progress(self, request_id: str, step: int, total_steps: int) -> None:
        """Called in the loop's thread; with `uni` during a forward, when no turn of it comes."""
        with self._lock:
            self._end_unwanted()
            stream = self._streams.get(request_id)
        if stream is not None:
            stream.put_progress(StepProgress(step, total_steps))

    # The end.

    def fail(self, error: FatalError) -> None:
        """End every request with a retryable `EngineDeadError`, and admit no more."""
        dead = EngineDeadError(f"{error.reason}: {error}")
        with self._lock:
            self._refusal = dead
            live = self._scheduler.live_request_ids()
            self.lost_requests += len(live)
            self._end(live, DiffusionRequestStatus.FINISHED_ERROR, dead)
            self._is_stopped.set()
        self._controls.close()
        self._executor.wake()

    def end_all(self, error: RequestError) -> None:
        """End what is still live, in the loop's next turn."""
        with self._lock:
            live = list(self._streams.values())
        for stream in live:
            self.abort(stream, error)

    def close(self, grace_s: float = 5.0) -> None:
        """Stop the loop, end every request with an error, end the workers. Idempotent, bounded."""
        with self._lock:
            self._is_stopped.set()
            if self._refusal is None:
                self._refusal = EngineDeadError("the engine is closed")
            live = self._scheduler.live_request_ids()
            closed = UnavailableError("the engine is closing")
            self._end(live, DiffusionRequestStatus.FINISHED_ABORTED, closed)
        self._controls.close()
        self._executor.wake()
        self._executor.shutdown(grace_s)
