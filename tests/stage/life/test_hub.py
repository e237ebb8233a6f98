"""Stages that get their model from a hub: its environment, its end, and a start without it."""

import pytest

from tests.fakes.hub import FakeHub

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture
def hub(icons_model):
    hub = FakeHub(icons_model)
    yield hub
    hub.stop()


@pytest.fixture
def start(serve, hub, tmp_path):
    """Starts a stage with a model of the hub."""
    env = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache")}
    return lambda repo, **more: serve(None, model=f"hf://{repo}", env=env | more, no_warmup=True)


@pytest.mark.slow
def test_66_a_repository_that_the_hub_does_not_give_away(start, hub):
    stage = start("org/gated", HF_TOKEN="hf_secret")
    assert stage.end(timeout_s=400) == 66, stage.log
    said = stage.last_words
    assert (said["reason"], said["rank"]) == ("ModelUnavailable", 0)
    assert said["msg"] == (
        f"model hf://org/gated: {hub.address} does not accept the token in HF_TOKEN"
    )
    assert "hf_secret" not in stage.log


def test_a_model_of_the_hub_is_served_and_after_that_without_it(start):
    first = start("org/open").wait_ready()
    assert first.status["model"] == "hf://org/open"
    first.close()
    start("org/open", HF_ENDPOINT="http://127.0.0.1:1").wait_ready()
