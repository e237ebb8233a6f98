"""The start: a small request on each rank before any other is taken."""

from dataclasses import replace

import pytest

from diffusion_stage.capabilities import Parameter
from diffusion_stage.engine.warmup import dummy_request, should_skip_warmup
from diffusion_stage.errors import (
    DeviceMemoryError,
    EngineDeadError,
    EngineDiedError,
    HangError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from tests.stage.builders import CAPABILITIES, done, failed, make_config, make_output

NEEDY = replace(CAPABILITIES, parameters={"image": Parameter(required=True), "prompt": Parameter()})


@pytest.fixture
def engine(make_engine):
    """Not started yet."""
    return make_engine(warmup=True, num_gpus=3)


def fails(error):
    return lambda request: failed(request.request_id, error)


def test_it_runs_on_each_rank_before_requests_are_taken(engine):
    released = []

    def answer(request):
        with pytest.raises(UnavailableError, match="loading"):
            engine.admission()
        output = make_output(release=lambda: released.append(request.request_id))
        return done(request.request_id, output)

    engine.executor.answers = answer
    engine.start()
    engine.admission()
    assert engine.executor.started == ["warm-up 0", "warm-up 1", "warm-up 2"]
    assert released == engine.executor.retired == engine.executor.started


def test_the_request_is_as_small_as_the_model_allows():
    assert dummy_request(0, CAPABILITIES).params == {
        "prompt": "warm-up",
        "num_inference_steps": 2,
        "height": 64,
        "width": 64,
    }
    unbounded = replace(CAPABILITIES, max_size=None)
    assert dummy_request(0, unbounded).params["height"] == 128


def test_the_request_has_only_parameters_that_the_pipeline_knows():
    plain = replace(CAPABILITIES, parameters={"prompt": Parameter()})
    assert dummy_request(0, plain).params == {"prompt": "warm-up"}


@pytest.mark.parametrize(
    ("config", "capabilities", "reason"),
    [
        (make_config(warmup=False), CAPABILITIES, "--no-warmup"),
        (make_config(warmup=True), NEEDY, "FakePipeline needs image"),
    ],
)
def test_it_is_skipped_for_a_reason(config, capabilities, reason):
    assert should_skip_warmup(config, capabilities) == (True, reason)


def test_too_little_memory_is_a_device_too_small(engine):
    engine.executor.answers = fails(ResourceExhaustedError("the device's memory is full"))
    with pytest.raises(DeviceMemoryError, match="warm-up: the device's memory is full"):
        engine.start()
    assert engine.executor.shutdowns == [0]


def test_an_exception_ends_the_start_and_is_named(engine):
    engine.executor.answers = fails(InternalError("AssertionError"))
    with pytest.raises(EngineDiedError, match="warm-up: InternalError: AssertionError"):
        engine.start()


def test_a_pipeline_that_needs_more_than_its_signature_says_goes_on_cold(engine):
    engine.executor.answers = fails(InvalidArgumentError("`image` must be given"))
    engine.start()
    engine.admission()


def test_a_hang_that_the_watchdog_ends_is_no_success(engine):
    engine.executor.then(lambda: engine.fail(HangError("no step")))
    with pytest.raises(EngineDiedError, match="Hang: no step"):
        engine.start()
    with pytest.raises(EngineDeadError):
        engine.admission()
