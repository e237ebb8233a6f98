"""One worker process per device, driven from the engine's loop."""

import contextlib
import itertools
import logging
import os
import selectors
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.resolve import ExecutionMode, ResolvedRuntime
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.errors import (
    EngineDeadError,
    FatalError,
    InternalError,
    StartupTimeoutError,
    fatal_error,
    request_error,
)
from diffusion_stage.executor.executor import DiffusionExecutor, OnProgress, RankActivity
from diffusion_stage.executor.handle import WorkerHandle
from diffusion_stage.executor.rpc import CollectiveCall
from diffusion_stage.executor.ticks import Placement, Tick
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.worker import leftovers
from diffusion_stage.worker import messages as m
from diffusion_stage.worker.channel import ChannelClosedError

logger = logging.getLogger(__name__)

PULSE_S = 1.0  # how often workers are asked for a sign of life


@dataclass(slots=True)
class _Forward:
    """A request on a worker, until its forward is done and its output is here.

    The two messages are correlated by the call's id and may come in either order. `is_packed`: the
    second is here, with the output or with the reason why there is none. `is_dropped`: nobody wants
    the output any more.
    """

    request: DiffusionRequest
    handle: WorkerHandle
    is_computed: bool = False
    is_packed: bool = False
    is_dropped: bool = False


class MultiprocDiffusionExecutor(DiffusionExecutor):
    """Starts one `WorkerProc` per device and gives each request to the least busy one.

    In a full wave that is rank r for request r. An aborted forward occupies its worker until its
    next step; a request placed behind it waits in the worker's own queue.
    """

    def __init__(
        self, config: StageConfig, runtime: ResolvedRuntime, on_progress: OnProgress
    ) -> None:
        super().__init__(config, runtime, on_progress)
        self._calls = itertools.count(1)
        self._forwards: dict[int, _Forward] = {}
        self._rpcs: dict[int, CollectiveCall] = {}
        self._failure: FatalError | None = None
        self._is_shut_down = False
        self._stopping = threading.Lock()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        self._handles: list[WorkerHandle] = []
        self._tick: Tick | None = None

    def start(self) -> Capabilities:
        """As the base class says; also `StartupTimeoutError` after `startup_timeout_s`."""
        if names := leftovers.clear():
            logger.info("removed what killed workers left in /dev/shm: %s", ", ".join(names))
        meeting = tempfile.mkdtemp(prefix="diffusion-stage-")
        try:
            for rank in range(self._runtime.world_size):
                self._spawn(rank, store=f"{meeting}/store")
            self._placement = Placement({handle.rank: handle for handle in self._handles})
            return self._wait_until_ready()
        except FatalError as error:
            self._failure = error
            raise
        finally:
            shutil.rmtree(meeting, ignore_errors=True)

    def _spawn(self, rank: int, *, store: str) -> None:
        config, threads = self._config, self._runtime.threads_per_worker
        spec = m.WorkerSpec(
            rank=rank,
            world_size=self._runtime.world_size,
            device=config.parallel.device,
            dtype=config.model.dtype,
            model_uri=config.model.model,
            model_revision=config.model.revision,
            pipeline_class=config.model.pipeline_class,
            worker_extension=config.engine.worker_extension,
            is_streaming=self._runtime.is_streaming,
            model_runner=self._runtime.model_runner,
            store=store,
        )
        environment = {"TQDM_DISABLE": "1"}  # progress bars are no log lines
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        handle = WorkerHandle(spec, environment)
        self._handles.append(handle)
        self._selector.register(handle.channel, selectors.EVENT_READ, handle)

    def _wait_until_ready(self) -> Capabilities:
        limit = self._config.timeouts.startup_timeout_s
        deadline = time.monotonic() + limit
        while True:
            left = deadline - time.monotonic()
            late = [h for h in self._handles if not h.is_ready]
            if left <= 0:
                names = ", ".join(f"{h.rank} ({h.device})" for h in late)
                raise StartupTimeoutError(
                    f"worker(s) {names} not ready in {limit:.0f} s",
                    rank=late[0].rank,
                    device=late[0].device,
                )
            for handle in self._select(left):
                capabilities = self._welcome(handle)
                if all(h.is_ready for h in self._handles):
                    return capabilities

    def _welcome(self, handle: WorkerHandle) -> Capabilities:
        try:
            message, _ = handle.receive()
        except ChannelClosedError:
            raise handle.death() from None
        match message:
            case m.Ready(capabilities=capabilities):
                handle.welcome(self.wake)
                logger.info("worker %d (%s) is ready", handle.rank, handle.device)
                return capabilities
            case m.StartFailed(reason=reason, message=text):
                raise fatal_error(reason)(text, rank=handle.rank, device=handle.device)
            case _:
                raise AssertionError(f"{message} before Ready")

    def execute_batch(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        """As the base class says, but `wait` tells of lost workers, after all that they said."""
        for request_id in output.finished_req_ids:
            self._retire(request_id)
        new = [each.request for each in output.scheduled_new_reqs]
        if self._runtime.mode is ExecutionMode.REQUEST_FUSED and len(new) > 1:
            calls = tuple(self._begin(request, self._handles[0]) for request in new)
            self._handles[0].send(m.ExecuteModelBatch(calls=calls))
            return BatchRunnerOutput()
        for request in new:
            handle = min(self._handles, key=lambda h: (len(h.computing), h.rank))
            handle.send(self._begin(request, handle))
        return BatchRunnerOutput()

    def _begin(self, request: DiffusionRequest, handle: WorkerHandle) -> m.ExecuteModel:
        call_id = next(self._calls)
        self._forwards[call_id] = _Forward(request, handle)
        handle.begin(call_id)
        return m.ExecuteModel(call_id=call_id, request=request)

    def execute_step(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        assert self._tick is None, "a step before the end of the one before"
        tick = Tick(output.step_id)
        for handle, share in self._placement.share(output):
            tick.begin(handle, next(self._calls), share, self._placement)
        if not tick.waiting:
            return tick.result()
        self._tick = tick
        return BatchRunnerOutput()

    def _end_tick(self) -> BatchRunnerOutput:
        """The tick's outputs, if every rank has answered."""
        if self._tick is None or self._tick.waiting:
            return BatchRunnerOutput()
        tick, self._tick = self._tick, None
        return tick.result()

    def _retire(self, request_id: str) -> None:
        """Drop what is left of an ended request: for a completed one, that is nothing."""
        for call_id, forward in list(self._forwards.items()):
            is_current = forward.request.request_id == request_id and not forward.is_dropped
            if not is_current or forward.is_packed:
                continue
            forward.is_dropped = True
            if not forward.is_computed:
                forward.handle.send(m.AbortCall(call_id=call_id))

    def wait(self, timeout_s: float | None) -> BatchRunnerOutput:
        outputs: list[RunnerOutput] = []
        if self._failure is None:
            try:
                self._hear(outputs, timeout_s)
            except FatalError as error:
                self._failure = error
        result = BatchRunnerOutput(outputs) if outputs else self._end_tick()
        if self._failure is not None and not result:  # what is whole is handed over before
            raise self._failure
        return result

    def _hear(self, outputs: list[RunnerOutput], timeout_s: float | None) -> None:
        """Add what the workers have done. Raises a worker's death once nobody says more."""
        for call in self._rpcs.values():
            call.check_time()
        for handle in self._handles:
            if time.monotonic() - handle.heard_at > PULSE_S:
                handle.ask_for_life()
        dying = [handle for handle in self._handles if handle.is_dying]
        ready = self._select(0 if dying else self._wait_s(timeout_s))
        if dying and not ready:
            raise dying[0].death()
        for handle in ready:
            outputs += self._receive(handle)

    def _wait_s(self, timeout_s: float | None) -> float:
        ends = [call.left_s for call in self._rpcs.values()]
        return min([PULSE_S if timeout_s is None else timeout_s, *ends])

    def _select(self, timeout_s: float) -> list[WorkerHandle]:
        """Workers that said something; returns early on `wake`."""
        ready = [key.data for key, _ in self._selector.select(timeout_s)]
        if None in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup)
        return [handle for handle in ready if handle is not None]

    def _receive(self, handle: WorkerHandle) -> list[RunnerOutput]:
        try:
            message, descriptors = handle.receive()
        except ChannelClosedError:
            self._selector.unregister(handle.channel)
            handle.is_dying = True
            return []
        match message:
            case m.StepDone():
                self._progress(handle, message)
            case m.ComputeDone():
                return self._computed(handle, message)
            case m.OutputReady():
                return self._output(handle, message, descriptors)
            case _:
                self._receive_other(handle, message, descriptors)
        return []

    def _receive_other(
        self, handle: WorkerHandle, message: m.FromWorker, descriptors: list[int]
    ) -> None:
        match message:
            case m.StepsTaken():
                assert self._tick is not None
                for taken in message.taken:
                    if taken.packed is not None:
                        handle.learn(taken.packed, descriptors)
                self._tick.answered(handle, message, self._placement)
            case m.MethodDone(call_id=call_id):
                if self._rpcs[call_id].answer(handle.rank, message):
                    del self._rpcs[call_id]
            case m.HereIAm():
                pass  # heard_at is set
            case _:
                raise AssertionError(f"{message} after Ready")

    def _progress(self, handle: WorkerHandle, message: m.StepDone) -> None:
        handle.advance(message.step)
        forward = self._forwards[message.call_id]
        if not forward.is_dropped:
            self._on_progress(forward.request.request_id, message.step, message.total_steps)

    def _computed(self, handle: WorkerHandle, message: m.ComputeDone) -> list[RunnerOutput]:
        forward = self._forwards[message.call_id]
        forward.is_computed = True
        is_packing = message.reason is None and not forward.is_packed
        handle.end(message.call_id, is_packing=is_packing)
        request_id = forward.request.request_id
        if message.fatal is not None:
            kind = fatal_error(message.fatal)
            raise kind(message.message, rank=handle.rank, device=handle.device)
        if message.reason is not None:
            del self._forwards[message.call_id]
            error = request_error(message.reason, message.message, field=message.field)
            return [] if forward.is_dropped else [RunnerOutput(request_id, error=error)]
        self._end_if_whole(message.call_id)
        if forward.is_packed or forward.is_dropped:
            return []
        return [RunnerOutput(request_id, async_output_id=str(message.call_id))]

    def _output(
        self, handle: WorkerHandle, message: m.OutputReady, descriptors: list[int]
    ) -> list[RunnerOutput]:
        handle.packing.pop(message.call_id, None)
        forward = self._forwards[message.call_id]
        forward.is_packed = True
        self._end_if_whole(message.call_id)
        request = forward.request
        if message.packed is None:
            assert message.reason is not None
            error = request_error(message.reason, message.message)
            return [] if forward.is_dropped else [RunnerOutput(request.request_id, error=error)]
        handle.learn(message.packed, descriptors)
        output = handle.borrow(message.packed, request.seed)
        if forward.is_dropped:
            output.release()
            return []
        return [RunnerOutput(request.request_id, result=output)]

    def _end_if_whole(self, call_id: int) -> None:
        forward = self._forwards[call_id]
        if forward.is_computed and forward.is_packed:
            del self._forwards[call_id]

    def wake(self) -> None:
        with self._stopping:
            if not self._is_shut_down:
                os.eventfd_write(self._wakeup, 1)

    def cancel(self, request_ids: Iterable[str]) -> None:
        """Nothing to do ahead: the loop wakes at once and tells the workers."""

    def collective_rpc(
        self, method: str, args: dict[str, Any], timeout_s: float | None = None
    ) -> Future[list[Any]]:
        call_id = next(self._calls)
        call = CollectiveCall(method, len(self._handles), timeout_s)
        self._rpcs[call_id] = call
        for handle in self._handles:
            handle.send(m.CallMethod(call_id=call_id, method=method, args=args))
        return call.future

    def activity(self) -> list[RankActivity]:
        return [handle.activity() for handle in self._handles]

    def check_health(self) -> None:
        if self._failure is not None:
            raise EngineDeadError(str(self._failure))
        if self._is_shut_down:
            raise EngineDeadError("the executor is shut down")

    def shutdown(self, grace_s: float = 5.0) -> None:
        with self._stopping:
            if self._is_shut_down:
                return
            self._is_shut_down = True
        deadline = time.monotonic() + grace_s
        for handle in self._handles:
            if grace_s > 0:
                handle.ask_to_stop()
        for handle in self._handles:
            handle.end_by(deadline)
        for call in self._rpcs.values():
            call.fail(InternalError("the executor is shut down"))
        self._rpcs.clear()
        self._forwards.clear()
        self._selector.close()
        os.close(self._wakeup)
