"""Whole-request scheduling: a scheduled request runs its pipeline's call from start to end."""

from dataclasses import dataclass

from diffusion_stage.scheduler.base import BaseScheduler, SchedulerRequestState
from diffusion_stage.scheduler.output import DiffusionSchedulerOutput
from diffusion_stage.scheduler.policy import Policy

DATA_PARALLEL_WINDOW_S = 0.3
WINDOW_S = 0.05


@dataclass(slots=True)
class _Wait:
    """For the wave to fill: until `deadline`, or until no request came since `stable_until`."""

    deadline: float
    stable_until: float
    waiting: int


class RequestScheduler(BaseScheduler):
    """Runs up to `max_num_running_reqs` requests, each with a forward of its own or all in one.

    `is_fused`: one call of the pipeline takes all of a wave, and the next wave begins after its
    end. Otherwise each has a data parallel rank of its own, so any may run beside any.

    `max_wait_s` lets the first request of a wave wait for others that may run with it, until the
    wave is full or no such request came for a while (`min(0.3, wait/2)` seconds for data parallel
    ranks, else `min(0.05, wait/5)`). An abort ends the wait when nobody is left.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        is_fused: bool = False,
        max_wait_s: float = 0.0,
    ) -> None:
        super().__init__(policy)
        self._is_fused = is_fused
        self._max_wait_s = max_wait_s
        self._window_s = (
            min(WINDOW_S, max_wait_s / 5)
            if is_fused
            else min(DATA_PARALLEL_WINDOW_S, max_wait_s / 2)
        )

    def initialize(self, max_num_running_reqs: int) -> None:
        """As the base class says."""
        super().initialize(max_num_running_reqs)
        self._wait: _Wait | None = None
        self._is_wave_open = True

    def admission_wait_until(self, now: float) -> float | None:
        """As the base class says; counts only requests that may run with the first one."""
        compatible = self._compatible()
        is_pointless = self._max_wait_s <= 0 or self.max_num_running_reqs == 1 or self._running
        if is_pointless or not 0 < compatible < self.max_num_running_reqs:
            self._wait = None
            return None
        if self._wait is None:
            self._wait = _Wait(now + self._max_wait_s, now + self._window_s, compatible)
        elif compatible > self._wait.waiting:
            self._wait.stable_until = now + self._window_s
        self._wait.waiting = compatible
        until = min(self._wait.deadline, self._wait.stable_until)
        if now < until:
            return until
        self._wait = None
        return None

    def _compatible(self) -> int:
        """How many wait that may run with the first of the queue."""
        if self._rule is None:
            return self.num_waiting_reqs
        first = self._first()
        return self._waiting_by_key[first.batch_key] if first else 0

    def schedule(self, *, admit: bool = True) -> DiffusionSchedulerOutput:
        """As the base class says."""
        self._is_wave_open = not self._is_fused or not self._running
        return super().schedule(admit=admit)

    def _can_join(self, state: SchedulerRequestState) -> bool:
        return self._is_wave_open and super()._can_join(state)

    def preempt_request(self, request_id: str) -> bool:  # noqa: ARG002
        """False: a forward is never left half done."""
        return False
