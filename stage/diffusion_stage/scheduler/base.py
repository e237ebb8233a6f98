"""Request states and transitions, common to all schedulers."""

import abc
import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from diffusion_stage.errors import AlreadyExistsError, InternalError, RequestError
from diffusion_stage.outputs import BatchRunnerOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest, DiffusionRequestStatus
from diffusion_stage.scheduler.output import (
    CachedRequestData,
    DiffusionSchedulerOutput,
    NewRequestData,
)

Status = DiffusionRequestStatus


@dataclass(slots=True)
class SchedulerRequestState:
    """One admitted request. Finished states stay until `pop_request_state` hands them over."""

    request: DiffusionRequest
    status: Status = Status.WAITING
    error: RequestError | None = None


class BaseScheduler(abc.ABC):
    """The source of truth for admitted requests (DIFF-RUNTIME-INV-001).

    Waiting requests run by priority, then by arrival. Not thread-safe: the engine calls it under
    its lock. Operations take O(log n) in the number of waiting requests.
    """

    def __init__(self) -> None:
        self.initialize(max_num_running_reqs=1)

    def initialize(self, max_num_running_reqs: int) -> None:
        """Forget everything and set the capacity, in requests."""
        self.max_num_running_reqs = max_num_running_reqs
        self._states: dict[str, SchedulerRequestState] = {}
        self._queue: list[tuple[int, int, SchedulerRequestState]] = []
        self._deadlines: list[tuple[float, int, SchedulerRequestState]] = []
        self._arrivals = itertools.count()
        self._steps = itertools.count(1)
        self._waiting = 0
        self._running: dict[str, None] = {}
        self._unreported: set[str] = set()

    @abc.abstractmethod
    def _can_join(self, state: SchedulerRequestState) -> bool:
        """Whether a waiting request may run beside those that run now."""

    def add_request(self, request: DiffusionRequest) -> None:
        """Queue a request. Raises `AlreadyExistsError` while another has its id."""
        if request.request_id in self._states:
            raise AlreadyExistsError(
                f"request_id {request.request_id!r} is in use by a live request; "
                "allowed: an id that is not",
                field="request_id",
            )
        state = SchedulerRequestState(request)
        self._states[request.request_id] = state
        arrival = next(self._arrivals)
        heapq.heappush(self._queue, (request.priority, arrival, state))
        if request.deadline_at is not None:
            heapq.heappush(self._deadlines, (request.deadline_at, arrival, state))
        self._waiting += 1

    def schedule(self) -> DiffusionSchedulerOutput:
        """Admit what fits, and report each finished request once."""
        cached = CachedRequestData(tuple(self._running))
        new = tuple(self._admit())
        finished, self._unreported = frozenset(self._unreported), set()
        return DiffusionSchedulerOutput(
            step_id=next(self._steps),
            scheduled_new_reqs=new,
            scheduled_cached_reqs=cached,
            finished_req_ids=finished,
            num_running_reqs=len(self._running),
            num_waiting_reqs=self._waiting,
        )

    def _admit(self) -> Iterable[NewRequestData]:
        while self._queue and len(self._running) < self.max_num_running_reqs:
            state = self._queue[0][2]
            if state.status is not Status.WAITING:  # ended while it waited
                heapq.heappop(self._queue)
                continue
            if not self._can_join(state):
                break
            heapq.heappop(self._queue)
            self._waiting -= 1
            state.status = Status.RUNNING
            request_id = state.request.request_id
            self._running[request_id] = None
            yield NewRequestData(request_id, state.request)

    def update_from_output(self, output: BatchRunnerOutput) -> list[str]:
        """Take execution's news; returns the ids that became terminal by it.

        News of unknown or finished requests is dropped, and what it borrowed released.
        """
        finished = []
        for news in output.outputs:
            state = self._states.get(news.request_id)
            if state is None or state.status.is_finished:
                if news.result is not None:
                    news.result.release()
            elif self._apply(state, news):
                finished.append(news.request_id)
        return finished

    def _apply(self, state: SchedulerRequestState, news: RunnerOutput) -> bool:
        """Move one request on; returns whether it is finished."""
        if news.error is not None:
            self._finish(state, Status.FINISHED_ERROR, news.error)
        elif news.result is not None:
            self._finish(state, Status.FINISHED_COMPLETED, None)
        elif news.async_output_id is not None:
            self._running.pop(news.request_id, None)
            state.status = Status.MATERIALIZING
            return False
        else:
            error = InternalError(f"no output for request {news.request_id!r}")
            self._finish(state, Status.FINISHED_ERROR, error)
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
        if state.status is Status.WAITING:
            self._waiting -= 1
        else:  # a worker knows it
            self._running.pop(request_id, None)
            self._unreported.add(request_id)
        state.status = status
        state.error = error
        self._compact()

    def _compact(self) -> None:
        """Drop the ended from the heaps before they outnumber the rest."""
        if len(self._queue) > 2 * self._waiting + 16:
            self._queue = [entry for entry in self._queue if entry[2].status is Status.WAITING]
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
        return sum(s.status is Status.MATERIALIZING for s in self._states.values())

    def close(self) -> None:
        self.initialize(self.max_num_running_reqs)
