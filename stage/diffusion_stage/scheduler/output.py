"""The one message from policy to execution."""

from dataclasses import dataclass

from diffusion_stage.request import DiffusionRequest


@dataclass(frozen=True, slots=True)
class NewRequestData:
    """A request scheduled for the first time, with all that a worker needs of it."""

    request_id: str
    request: DiffusionRequest


@dataclass(frozen=True, slots=True)
class CachedRequestData:
    """Requests that go on: the workers know them by their ids."""

    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiffusionSchedulerOutput:
    """What runs now, and which requests have ended since the last output.

    `finished_req_ids` holds each ended request once; an output that schedules nothing but carries
    such ids is a retirement-only tick.
    """

    step_id: int
    scheduled_new_reqs: tuple[NewRequestData, ...]
    scheduled_cached_reqs: CachedRequestData
    finished_req_ids: frozenset[str]
    num_running_reqs: int
    num_waiting_reqs: int

    @property
    def has_news(self) -> bool:
        """Whether executors have anything to do for it that they do not do already."""
        return bool(self.scheduled_new_reqs or self.finished_req_ids)

    @property
    def scheduled_request_ids(self) -> tuple[str, ...]:
        """All that run in a step of step mode."""
        new = tuple(each.request_id for each in self.scheduled_new_reqs)
        return self.scheduled_cached_reqs.request_ids + new
