"""An executor without workers: a test says, turn by turn, what they would say.

The engine's loop runs in the test's own thread. Each `wait` of the loop performs the next scripted
turn; a loop that would wait for ever fails the test instead.
"""

from concurrent.futures import Future

from diffusion_stage.executor.executor import DiffusionExecutor
from diffusion_stage.outputs import BatchRunnerOutput
from tests.stage.builders import CAPABILITIES


class StuckError(BaseException):
    """There is work, but nothing that could happen any more."""


class FakeExecutor(DiffusionExecutor):
    """`started` and `retired` are what the scheduler's outputs said, in order.

    `answers` says how a forward ends at once: a function from request to `RunnerOutput`, or None.
    """

    def __init__(self, config, runtime, on_progress):
        super().__init__(config, runtime, on_progress)
        self.capabilities = CAPABILITIES
        self.answers = lambda request: None
        self.steps = lambda request_id: None
        self.scheduled = []
        self.started = []
        self.retired = []
        self.cancelled = []
        self.calls = []
        self.wakes = 0
        self.timeouts = []
        self.shutdowns = []
        self.failure = None
        self._turns = []

    def then(self, *turns):
        """Each turn is an output, a list of them, an error to raise, or a function of these."""
        self._turns += turns

    def step(self, request_id, step, total_steps):
        self._on_progress(request_id, step, total_steps)

    def start(self):
        if self.failure is not None:
            raise self.failure
        return self.capabilities

    def execute_batch(self, output):
        self.retired += sorted(output.finished_req_ids)
        self.started += [new.request_id for new in output.scheduled_new_reqs]
        answers = [self.answers(new.request) for new in output.scheduled_new_reqs]
        return BatchRunnerOutput(answer for answer in answers if answer is not None)

    def execute_step(self, output):
        """A step of each: `steps` says what comes of it, a function from its id to news of it."""
        self.retired += sorted(output.finished_req_ids)
        self.started += [new.request_id for new in output.scheduled_new_reqs]
        self.scheduled.append(output.scheduled_request_ids)
        news = [self.steps(request_id) for request_id in output.scheduled_request_ids]
        return BatchRunnerOutput([each for each in news if each], step_id=output.step_id)

    def wait(self, timeout_s):
        self.timeouts.append(timeout_s)
        if timeout_s == 0:
            return BatchRunnerOutput()
        if not self._turns:
            raise StuckError
        turn = self._turns.pop(0)
        said = turn() if callable(turn) else turn
        if isinstance(said, Exception):
            raise said
        if said is None:
            return BatchRunnerOutput()
        if isinstance(said, BatchRunnerOutput):
            return said
        return BatchRunnerOutput(said if isinstance(said, list) else [said])

    def wake(self):
        self.wakes += 1

    def cancel(self, request_ids):
        self.cancelled += request_ids

    def collective_rpc(self, method, args, timeout_s=None):
        future = Future()
        self.calls.append((method, args, future))
        return future

    def activity(self):
        return []

    def check_health(self):
        if self.failure is not None:
            raise self.failure

    def shutdown(self, grace_s=5.0):
        self.shutdowns.append(grace_s)
