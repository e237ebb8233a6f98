"""An engine on a scripted executor, and a consumer that remembers what it was told."""

from collections import defaultdict

import pytest

from diffusion_stage.config.resolve import resolve
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.outputs import Completed, Failed
from tests.fakes.executor import FakeExecutor
from tests.stage.builders import make_config, make_request


class Consumer:
    """Reads each stream when it is told to; `events` are kept by stream."""

    def __init__(self):
        self.events = defaultdict(list)

    def notify(self, stream):
        self.events[stream] += stream.take()

    def ends(self, stream):
        return [e for e in self.events[stream] if isinstance(e, Completed | Failed)]

    def error(self, stream):
        """The error of a request that ended with one, and ended once."""
        (end,) = self.ends(stream)
        return end.error

    def output(self, stream):
        """The output of a request that ended well, and ended once."""
        (end,) = self.ends(stream)
        return end.output


@pytest.fixture
def make_engine():
    """Makes engines, not started; their executor is `engine.executor`."""

    def make(**given):
        config = make_config(**given)

        def make_executor(*args):
            engine.append(FakeExecutor(*args))
            return engine[0]

        engine = []
        made = DiffusionEngine(config, resolve(config), make_executor=make_executor)
        made.executor = engine[0]
        return made

    return make


@pytest.fixture
def engine(make_engine):
    """Serving, with room for one request at a time."""
    engine = make_engine()
    engine.start()
    return engine


@pytest.fixture
def executor(engine):
    return engine.executor


@pytest.fixture
def consumer():
    return Consumer()


@pytest.fixture
def add(engine, consumer):
    """Admits a request; returns its stream."""
    return lambda request_id="a", **given: engine.add_request(
        make_request(request_id, **given), consumer.notify
    )


@pytest.fixture
def run(engine):
    """Runs the loop until there is no work."""
    return lambda: engine.run(lambda: True)
