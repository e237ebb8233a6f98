"""Whole-request scheduling: a scheduled request runs its pipeline's call from start to end."""

from diffusion_stage.scheduler.base import BaseScheduler, SchedulerRequestState


class RequestScheduler(BaseScheduler):
    """Runs up to `max_num_running_reqs` requests, each on a data parallel rank of its own.

    Requests on different ranks share nothing, so any may run beside any.
    """

    def _can_join(self, state: SchedulerRequestState) -> bool:  # noqa: ARG002  # any may
        return True
