"""Request states and transitions, common to all schedulers."""

import heapq
import itertools
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from diffusion_stage.errors import AlreadyExistsError, InternalError, RequestError
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest, DiffusionRequestStatus
from diffusion_stage.scheduler.compatibility import BatchRule
from diffusion_stage.scheduler.output import (
    CachedRequestData,
    DiffusionSchedulerOutput,
    NewRequestData,
)
from diffusion_stage.scheduler.policy import Fifo, Policy

Status = DiffusionRequestStatus


@dataclass(slots=True)
class SchedulerRequestState:
    """One admitted request. Finished states stay until `pop_request_state` hands them over.

    `arrival` counts admissions; `overtaken` how often a later request was scheduled before this.
    """

    request: DiffusionRequest
    arrival: int
    batch_key: Hashable = None
    status: Status = Status.WAITING
    error: RequestError | None = None
    overtaken: int = 0

    @property
    def is_queued(self) -> bool:
        return self.status is Status.WAITING or self.status is Status.PREEMPTED


class BaseScheduler:
    """The source of truth for admitted requests (DIFF-RUNTIME-INV-001).

    Waiting requests run by priority, then by arrival, as far as the policy lets them. Not
    thread-safe: the engine calls it under its lock. Operations take O(log n) in the number of
    waiting requests.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Fifo()
        self.initialize(max_num_running_reqs=1)

    def initialize(self, max_num_running_reqs: int) -> None:
        """Forget everything and set the capacity, in requests."""
        self.max_num_running_reqs = max_num_running_reqs
        self._rule: BatchRule | None = None
        self._states: dict[str, SchedulerRequestState] = {}
        self._queue: list[tuple[int, int, SchedulerRequestState]] = []
        self._deadlines: list[tuple[float, int, SchedulerRequestState]] = []
        self._arrivals = itertools.count()
        self._steps = itertools.count(1)
        self._waiting = 0
        self._waiting_by_key: Counter[Hashable] = Counter()
        self._running: dict[str, SchedulerRequestState] = {}
        self._materializing = 0
        self._unreported: set[str] = set()

    def use_rule(self, rule: BatchRule | None) -> None:
        """Which requests may run together; None: any. Before the first request."""
        assert not self._states
        self._rule = rule

    def _can_join(self, state: SchedulerRequestState) -> bool:
        """Whether a waiting request may run beside those that run now."""
        if self._rule is None or not self._running:
            return True
        beside = next(iter(self._running.values()))
        return beside.batch_key == state.batch_key

    def add_request(self, request: DiffusionRequest) -> None:
        """Queue a request. Raises `AlreadyExistsError` while another has its id."""
        if request.request_id in self._states:
            raise AlreadyExistsError(
                f"request_id {request.request_id!r} is in use by a live request; "
                "allowed: an id that is not",
                field="request_id",
            )
        key = None if self._rule is None else self._rule.key(request)
        state = SchedulerRequestState(request, next(self._arrivals), key)
        self._states[request.request_id] = state
        self._enqueue(state)
        if request.deadline_at is not None:
            heapq.heappush(self._deadlines, (request.deadline_at, state.arrival, state))

    def _enqueue(self, state: SchedulerRequestState) -> None:
        heapq.heappush(self._queue, (state.request.priority, state.arrival, state))
        self._waiting += 1
        self._waiting_by_key[state.batch_key] += 1

    def _dequeue(self, state: SchedulerRequestState) -> None:
        """It waits no more; its entry in the heap goes when it comes up."""
        self._waiting -= 1
        self._waiting_by_key[state.batch_key] -= 1
        if not self._waiting_by_key[state.batch_key]:
            del self._waiting_by_key[state.batch_key]

    def _first(self) -> SchedulerRequestState | None:
        """The first of the queue."""
        while self._queue and not self._queue[0][2].is_queued:  # ended while it waited
            heapq.heappop(self._queue)
        return self._queue[0][2] if self._queue else None

    def admission_wait_until(self, now: float) -> float | None:  # noqa: ARG002
        """Until when `schedule` should wait for more requests (monotonic seconds); None: not."""
        return None

    def schedule(self, *, admit: bool = True) -> DiffusionSchedulerOutput:
        """Admit what fits, unless told otherwise, and report each finished request once."""
        cached, new = list(self._running), []
        for state in self._admit() if admit else ():
            request_id = state.request.request_id
            if state.status is Status.PREEMPTED:
                cached.append(request_id)
            else:
                new.append(NewRequestData(request_id, state.request))
            state.status = Status.RUNNING
        finished, self._unreported = frozenset(self._unreported), set()
        return DiffusionSchedulerOutput(
            step_id=next(self._steps),
            scheduled_new_reqs=tuple(new),
            scheduled_cached_reqs=CachedRequestData(tuple(cached)),
            finished_req_ids=finished,
            num_running_reqs=len(self._running),
            num_waiting_reqs=self._waiting,
        )

    def _admit(self) -> Iterator[SchedulerRequestState]:
        """Take what runs next out of the queue, one by one."""
        passed: list[SchedulerRequestState] = []
        while len(self._running) < self.max_num_running_reqs and (state := self._first()):
            if self._can_join(state):
                heapq.heappop(self._queue)
                self._dequeue(state)
                self._running[state.request.request_id] = state
                self._policy.overtake(passed)
                yield state
            elif self._policy.may_pass(state, len(passed)):
                heapq.heappop(self._queue)
                passed.append(state)
            else:
                break
        for state in passed:
            heapq.heappush(self._queue, (state.request.priority, state.arrival, state))

    def update_from_output(
        self, output: BatchRunnerOutput, scheduled: DiffusionSchedulerOutput | None = None
    ) -> list[str]:
        """Take execution's news; returns the ids that became terminal by it.

        News of requests that no worker has is dropped, and what it borrowed released. With
        `scheduled`, the output carries all of it out: a request of it without news has failed.
        """
        finished = []
        news = {each.request_id: each for each in output.outputs}
        for request_id in scheduled.scheduled_request_ids if scheduled else ():
            news.setdefault(request_id, RunnerOutput(request_id))
        for request_id, each in news.items():
            state = self._states.get(request_id)
            if state is None or not self.has_started(request_id):  # news of an attempt that ended
                if each.result is not None:
                    each.result.release()
            elif self._apply(state, each):
                finished.append(request_id)
        return finished

    def _apply(self, state: SchedulerRequestState, news: RunnerOutput) -> bool:
        """Move one request on; returns whether it is finished."""
        if news.error is not None:
            self._finish(state, Status.FINISHED_ERROR, news.error)
        elif not news.is_finished and news.step_index is not None:
            return False
        elif news.result is not None:
            self._finish(state, Status.FINISHED_COMPLETED, None)
        elif news.async_output_id is not None:
            self._running.pop(news.request_id, None)
            self._materializing += state.status is not Status.MATERIALIZING
            state.status = Status.MATERIALIZING
            return False
        else:
            error = InternalError(f"no output for request {news.request_id!r}")
            self._finish(state, Status.FINISHED_ERROR, error)
        return True

    def preempt_request(self, request_id: str) -> bool:
        """Let a running request wait again, first of its priority; False if it does not run."""
        state = self._running.pop(request_id, None)
        if state is None:
            return False
        state.status = Status.PREEMPTED
        self._enqueue(state)
        return True

    def finish_requests(
        self, request_ids: Iterable[str], status: Status, error: RequestError
    ) -> list[str]:
        """End live requests from outside (abort, deadline); returns those that were live."""
        assert status.is_finished
        ended = []
        for request_id in request_ids:
            state = self._states.get(request_id)
            if state is not None and not state.status.is_finished:
                self._finish(state, status, error)
                ended.append(request_id)
        return ended

    def _finish(
        self, state: SchedulerRequestState, status: Status, error: RequestError | None
    ) -> None:
        request_id = state.request.request_id
        if state.is_queued:
            self._dequeue(state)
        self._materializing -= state.status is Status.MATERIALIZING
        if state.status is not Status.WAITING:  # a worker knows it
            self._running.pop(request_id, None)
            self._unreported.add(request_id)
        state.status = status
        state.error = error
        self._compact()

    def _compact(self) -> None:
        """Drop the ended from the heaps before they outnumber the rest."""
        if len(self._queue) > 2 * self._waiting + 16:
            self._queue = [entry for entry in self._queue if entry[2].is_queued]
            heapq.heapify(self._queue)
        if len(self._deadlines) > 2 * len(self._states) + 16:
            self._deadlines = [e for e in self._deadlines if not e[2].status.is_finished]
            heapq.heapify(self._deadlines)

    def pop_request_state(self, request_id: str) -> SchedulerRequestState:
        """Hand over a finished request and forget it."""
        assert self._states[request_id].status.is_finished
        return self._states.pop(request_id)

    def overdue(self, now: float) -> list[str]:
        """Live requests whose deadline (monotonic seconds) has passed."""
        ids = []
        while self._deadlines and self._deadlines[0][0] <= now:
            state = heapq.heappop(self._deadlines)[2]
            if not state.status.is_finished:
                ids.append(state.request.request_id)
        return ids

    def next_deadline(self) -> float | None:
        """The earliest deadline of a live request, in monotonic seconds."""
        while self._deadlines and self._deadlines[0][2].status.is_finished:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def live_request_ids(self) -> list[str]:
        return [i for i, state in self._states.items() if not state.status.is_finished]

    def is_running(self, request_id: str) -> bool:
        """Whether a worker has its forward at hand."""
        return request_id in self._running

    def has_started(self, request_id: str) -> bool:
        """Whether it is live, and a worker knows it."""
        state = self._states.get(request_id)
        return (
            state is not None
            and state.status is not Status.WAITING
            and not state.status.is_finished
        )

    @property
    def has_work(self) -> bool:
        """Live requests, or finishes that no worker has been told of."""
        return bool(self._states or self._unreported)

    @property
    def num_waiting_reqs(self) -> int:
        return self._waiting

    @property
    def num_running_reqs(self) -> int:
        return len(self._running)

    @property
    def num_materializing_reqs(self) -> int:
        return self._materializing

    def close(self) -> None:
        self.initialize(self.max_num_running_reqs)


class SchedulerInterface(BaseScheduler):
    """The former name of `BaseScheduler`; subclasses of it still work, with a warning."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        warnings.warn(
            f"{cls.__name__}: SchedulerInterface is now called BaseScheduler",
            DeprecationWarning,
            stacklevel=2,
        )
