"""What the engine asks of an execution backend."""

import abc
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from diffusion_stage.capabilities import Capabilities
from diffusion_stage.config.imports import import_subclass
from diffusion_stage.config.resolve import ResolvedRuntime
from diffusion_stage.config.stage import StageConfig
from diffusion_stage.outputs import BatchRunnerOutput
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput

OnProgress = Callable[[str, int, int], None]
"""Called with request id, steps done and all steps."""


@dataclass(frozen=True, slots=True)
class RankActivity:
    """One worker at this moment; times are monotonic seconds.

    `busy_since` None: nothing runs. `heard_at`: its last sign of life. `progress_at`: its last
    step, or the start of the call at hand.
    """

    rank: int
    device: str
    busy_since: float | None
    progress_at: float
    heard_at: float
    step: int | None


class DiffusionExecutor(abc.ABC):
    """Executes scheduler output; it neither admits nor reorders (DIFF-RUNTIME-INV-002).

    One thread, the engine's loop, calls it; `wake`, `cancel`, `activity` and `shutdown` are
    thread-safe. Results are mapped by request id (DIFF-RUNTIME-INV-005).
    """

    def __init__(
        self, config: StageConfig, runtime: ResolvedRuntime, on_progress: OnProgress
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._on_progress = on_progress

    @abc.abstractmethod
    def start(self) -> Capabilities:
        """Make the workers and wait until all are ready.

        Raises the `FatalError` of the first to fail.
        """

    @abc.abstractmethod
    def execute_batch(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        """Begin what is new, retire what is finished; returns what is done already.

        Raises a `FatalError` when the workers are lost.
        """

    def execute_request(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        """As `execute_batch`, for a wave whose requests each go to a data parallel rank."""
        return self.execute_batch(output)

    @abc.abstractmethod
    def execute_step(self, output: DiffusionSchedulerOutput) -> BatchRunnerOutput:
        """Begin one step of all that is scheduled, retire what is finished.

        The result with the output's `step_id` comes now or from `wait`; no other step before it.
        Raises as `execute_batch`.
        """

    @abc.abstractmethod
    def wait(self, timeout_s: float | None) -> BatchRunnerOutput:
        """What was done since; returns early on `wake`. Raises as `execute_batch`."""

    @abc.abstractmethod
    def wake(self) -> None:
        """End the `wait` at hand, or the next one."""

    @abc.abstractmethod
    def cancel(self, request_ids: Iterable[str]) -> None:
        """Ask running forwards to stop at their next step, ahead of the scheduler's word."""

    @abc.abstractmethod
    def collective_rpc(
        self, method: str, args: dict[str, Any], timeout_s: float | None = None
    ) -> Future[list[Any]]:
        """Call a method on every worker, between forwards; the values come in rank order.

        The future fails with `InternalError` when any rank fails, and with `DeadlineExceededError`
        after `timeout_s` where the backend enforces it; the workers still end the call.
        """

    @abc.abstractmethod
    def activity(self) -> list[RankActivity]:
        """What each worker is doing."""

    @abc.abstractmethod
    def check_health(self) -> None:
        """Raises `EngineDeadError` once the workers are lost or shut down."""

    @abc.abstractmethod
    def shutdown(self, grace_s: float = 5.0) -> None:
        """End the workers, by force after `grace_s`. Idempotent."""


def make_executor(
    config: StageConfig, runtime: ResolvedRuntime, on_progress: OnProgress
) -> DiffusionExecutor:
    """The executor that the configuration names. `mp` imports no torch into this process.

    Raises `ConfigError` for an import path of something else.
    """
    match config.engine.executor:
        case "uni":
            from diffusion_stage.executor.uniproc import UniProcDiffusionExecutor

            return UniProcDiffusionExecutor(config, runtime, on_progress)
        case "mp":
            from diffusion_stage.executor.multiproc import MultiprocDiffusionExecutor

            return MultiprocDiffusionExecutor(config, runtime, on_progress)
        case path:
            kind = import_subclass(path, DiffusionExecutor)
            executor: DiffusionExecutor = kind(config, runtime, on_progress)
            return executor
