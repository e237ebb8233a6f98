"""The one door to a worker: its methods by name, and those that an extension adds."""

import pytest

from diffusion_stage.errors import ConfigError, InvalidArgumentError
from diffusion_stage.worker.wrapper import WorkerWrapperBase
from tests.stage.builders import make_spec

FAKES = "tests.fakes.pipelines"


def make_wrapper(model="/models/m", **given):
    return WorkerWrapperBase(make_spec(model_uri=str(model), **given))


def test_a_started_worker_reports_and_ends(fake_model):
    wrapper = make_wrapper(fake_model)
    assert wrapper.start().pipeline == "Pipeline"
    assert wrapper.execute_method("report", {})["device"] == "cpu"
    wrapper.shutdown()


def test_an_extension_adds_methods_to_those_there_are(fake_model):
    """DIFF-RUNTIME-INV-004."""
    wrapper = make_wrapper(fake_model, worker_extension=f"{FAKES}:Extension")
    wrapper.start()
    assert wrapper.execute_method("echo", {"value": 5}) == 5
    assert wrapper.execute_method("report", {})["rank"] == 0
    wrapper.shutdown()


def test_an_extension_takes_no_methods_place():
    with pytest.raises(ConfigError, match=f"{FAKES}:Conflict redefines report"):
        make_wrapper(worker_extension=f"{FAKES}:Conflict")


@pytest.mark.parametrize("method", ["reboot", "_spec", "__init__", "shutdown", "load_model"])
def test_a_method_that_is_not_there_is_refused_with_those_that_are(method):
    with pytest.raises(InvalidArgumentError, match="allowed: check_device, report") as no:
        make_wrapper().execute_method(method, {})
    assert no.value.field == "method"
