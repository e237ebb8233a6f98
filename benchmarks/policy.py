"""P3 and P7: what deciding costs, for many running requests and for a long queue."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from benchmarks.blocks import Pair
from benchmarks.result import Result, figure, ratio
from diffusion_stage.capabilities import BatchFields, Capabilities
from diffusion_stage.config.resolve import resolve
from diffusion_stage.config.stage import EngineConfig, ModelConfig, StageConfig
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.errors import CancelledError
from diffusion_stage.executor.executor import DiffusionExecutor
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.scheduler.step import StepScheduler

RUNNING = 64
STEPS = 200
SHORT, LONG = 10, 10_000
CALLS = 200
MICROSECOND = 1e6
CAPABILITIES = Capabilities(
    pipeline="None",
    parameters={},
    has_step_callback=False,
    has_output_type=False,
    step_batch=BatchFields(key=("height",), free=("prompt",)),
)


class _Idle(DiffusionExecutor):
    """Workers that do nothing, at once."""

    def start(self) -> Capabilities:
        return CAPABILITIES

    def execute_batch(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        raise NotImplementedError

    def execute_step(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        ids = output.scheduled_request_ids
        news = [RunnerOutput(i, step_index=1, total_steps=9, is_finished=False) for i in ids]
        return BatchRunnerOutput(news, step_id=output.step_id)

    def wait(self, timeout_s: float | None) -> BatchRunnerOutput:  # noqa: ARG002
        return BatchRunnerOutput()

    def wake(self) -> None:
        pass

    def cancel(self, request_ids: Any) -> None:
        pass

    def collective_rpc(
        self, method: str, args: dict[str, Any], timeout_s: float | None = None
    ) -> Future[list[Any]]:
        raise NotImplementedError

    def activity(self) -> list[Any]:
        return []

    def check_health(self) -> None:
        pass

    def shutdown(self, grace_s: float = 5.0) -> None:
        pass


def run(blocks: int) -> list[Result]:
    """In this process; nothing is computed but decisions."""
    figures = [_microseconds_per_request_step() for _ in range(blocks)]
    queues = [(_queue(SHORT), _queue(LONG)) for _ in range(blocks)]
    results = [
        figure(
            "P3.scheduler",
            f"schedule and update, per request and step, {RUNNING} running",
            figures,
            unit="µs",
            baseline=f"nothing: {STEPS} steps a block",
            limit=20,
        )
    ]
    for index, what in enumerate(("submit", "cancel")):
        pairs = [Pair(ours=long[index], baseline=short[index]) for short, long in queues]
        results.append(
            ratio(
                f"P7.{what}",
                f"{what} with {LONG} requests queued ÷ with {SHORT}",
                pairs,
                baseline=lambda seconds: f"{MICROSECOND * seconds:.1f} µs with {SHORT}",
                limit=2,
            )
        )
    return results


def _request(request_id: str) -> DiffusionRequest:
    return DiffusionRequest(request_id=request_id, attempt=1, params={"prompt": "x"}, seed=0)


def _microseconds_per_request_step() -> float:
    scheduler = StepScheduler()
    scheduler.initialize(RUNNING)
    scheduler.use_rule(BatchRule.for_steps(CAPABILITIES))
    for number in range(RUNNING):
        scheduler.add_request(_request(f"{number}"))
    start = time.perf_counter()
    for _ in range(STEPS):
        scheduled = scheduler.schedule()
        news = [
            RunnerOutput(request_id, step_index=1, total_steps=9, is_finished=False)
            for request_id in scheduled.scheduled_request_ids
        ]
        scheduler.update_from_output(BatchRunnerOutput(news), scheduled)
    return MICROSECOND * (time.perf_counter() - start) / (STEPS * RUNNING)


def _queue(length: int) -> tuple[float, float]:
    """Seconds of one submission, and of one cancellation, with that many in the queue."""
    engine_config = EngineConfig(step_execution=True, max_queue=100_000, warmup=False)
    config = StageConfig(model=ModelConfig(model="/none"), engine=engine_config)
    engine = DiffusionEngine(config, resolve(config), make_executor=_Idle)
    engine.start()
    for number in range(length):
        engine.add_request(_request(f"queued {number}"), lambda _stream: None)
    engine._tick()
    streams = []

    def submit(number: int) -> None:
        streams.append(engine.add_request(_request(f"more {number}"), lambda _stream: None))

    def cancel(number: int) -> None:
        engine.abort(streams[number], CancelledError("as asked"))
        with engine._lock:
            engine._end_unwanted()

    return _mean(submit), _mean(cancel)


def _mean(call: Callable[[int], None]) -> float:
    start = time.perf_counter()
    for number in range(CALLS):
        call(number)
    return (time.perf_counter() - start) / CALLS
