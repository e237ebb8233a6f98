"""Step scheduling: every turn is one denoising step of all that run, and others may join then."""

from diffusion_stage.outputs import RunnerOutput, StepProgress
from diffusion_stage.scheduler.base import BaseScheduler, SchedulerRequestState


class StepScheduler(BaseScheduler):
    """Requests with different numbers of steps, and at different steps, share a batch.

    `progress` by request id is bookkeeping only: the runner says when a request is done.
    """

    def initialize(self, max_num_running_reqs: int) -> None:
        """As the base class says."""
        super().initialize(max_num_running_reqs)
        self.progress: dict[str, StepProgress] = {}

    def _apply(self, state: SchedulerRequestState, news: RunnerOutput) -> bool:
        if news.step_index is not None:
            self.progress[news.request_id] = StepProgress(news.step_index, news.total_steps)
        return super()._apply(state, news)

    def pop_request_state(self, request_id: str) -> SchedulerRequestState:
        """As the base class says."""
        self.progress.pop(request_id, None)
        return super().pop_request_state(request_id)
