"""An engine that a test plays for the front end: it admits everything and ends what it is told."""

from concurrent.futures import Future

from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.engine.streams import OutputStream
from diffusion_stage.outputs import Completed, Failed, StepProgress
from tests.stage.builders import CAPABILITIES, make_output


class FakeEngine:
    """`streams` are those of admitted requests, by id; `refusal` is raised instead of admitting."""

    def __init__(self, config):
        self.config = config
        self.capabilities = CAPABILITIES
        self.refusal = None
        self.streams = {}
        self.requests = []
        self.aborted = []
        self.call = Future()

    def admission(self):
        if self.refusal is not None:
            raise self.refusal
        return self.capabilities

    def add_request(self, request, notify):
        self.admission()
        self.requests.append(request)
        self.streams[request.request_id] = OutputStream(request.request_id, notify)
        return self.streams[request.request_id]

    def abort(self, stream):
        self.aborted.append(stream.request_id)

    def load(self):
        return EngineLoad(waiting=3, running=1, materializing=0)

    def collective_rpc(self, method, args, timeout_s=None):
        return self.call

    # What a test does.

    def step(self, request_id, step, total_steps):
        self.streams[request_id].put_progress(StepProgress(step, total_steps))

    def complete(self, request_id, output=None):
        self.streams[request_id].put_end(Completed(output or make_output()))

    def fail(self, request_id, error):
        self.streams[request_id].put_end(Failed(error))
