"""A front end on loopback, with an engine played by the test."""

import pytest

from diffusion_stage.server.frontend import Frontend
from diffusion_stage.server.health import Health, Phase
from diffusion_stage.server.metrics import Metrics
from tests.fakes.engine import FakeEngine
from tests.stage.builders import make_config
from tests.stage.raw_client import RawClient


@pytest.fixture
def engine():
    return FakeEngine(make_config(max_client_requests=5))


@pytest.fixture
def health():
    health = Health()
    health.enter(Phase.SERVING)
    return health


@pytest.fixture
def metrics(engine):
    return Metrics(engine.load)


@pytest.fixture
def frontend(engine, health, metrics):
    frontend = Frontend(engine, health, metrics, lambda: {"phase": "serving"}, name="stage-0")
    frontend.start()
    yield frontend
    frontend.stop(linger_s=0.1)


@pytest.fixture
def connect(frontend):
    """Makes clients, which are closed at the end."""
    clients = []

    def make(**given):
        clients.append(RawClient(f"tcp://127.0.0.1:{frontend.port}", **given))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    return connect()
