"""One request's forward: arguments in, tensors out, and each failure its own kind."""

import numpy as np
import pytest
import torch
from PIL import Image

from diffusion_stage.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from diffusion_stage.pipelines.source import ModelSource
from diffusion_stage.request import InputTensor
from diffusion_stage.wire.tensors import describe, frame
from diffusion_stage.worker.packing import materialize
from diffusion_stage.worker.runner import DiffusionModelRunner
from tests.fakes.pipelines import Pipeline, picture
from tests.stage.builders import make_request

PROMPT = "a red circle"
ICON = {"prompt": PROMPT, "num_inference_steps": 4, "height": 64, "width": 64}


def ignore(step, total_steps):
    """Progress that nobody waits for."""


@pytest.fixture
def make_runner(tmp_path):
    def make(kind):
        runner = DiffusionModelRunner(torch.device("cpu"), torch.float32)
        path = f"tests.fakes.pipelines:{kind}"
        runner.load_model(ModelSource(str(tmp_path), None, is_local=True), pipeline_class=path)
        return runner

    return make


@pytest.fixture
def fake(make_runner):
    """Runs a request of these parameters on the fake pipeline."""
    runner = make_runner("Pipeline")

    def execute(on_step=ignore, *, inputs=(), seed=0, **params):
        request = make_request(params={"prompt": PROMPT} | params, inputs=inputs, seed=seed)
        return runner.execute_model(request, on_step)

    return execute


def given(name, array, kind="tensor"):
    return InputTensor(describe(name, array, kind=kind), bytes(frame(array)))


def icon(runner, seed=0, on_step=ignore, **given):
    """The pixels of one icon."""
    output = runner.execute(make_request(params=ICON | given, seed=seed), on_step)
    _, (pixels,) = materialize(output)
    return pixels[0]


def test_an_image_is_the_one_that_diffusers_makes_of_the_seed(runner):
    generator = torch.Generator("cpu").manual_seed(11)
    expected = runner.pipe(**ICON, generator=generator, output_type="pil").images[0]
    np.testing.assert_array_equal(icon(runner, seed=11), np.asarray(expected))


def test_each_seed_has_its_image_and_no_other_request_changes_it(runner):
    first = icon(runner, seed=1)
    assert (icon(runner, seed=2) != first).any()
    np.testing.assert_array_equal(icon(runner, seed=1), first)


def test_an_aborted_forward_leaves_nothing_in_the_next(runner):
    before = icon(runner, seed=1)

    def cancel(step, total_steps):
        if step == 2:
            raise CancelledError("as asked")

    with pytest.raises(CancelledError):
        icon(runner, seed=9, on_step=cancel)
    np.testing.assert_array_equal(icon(runner, seed=1), before)


def test_each_step_is_told(runner):
    steps = []
    icon(runner, on_step=lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("output", "dtype"), [("tensor", torch.float32), ("latent", torch.float32)]
)
def test_other_outputs_are_numbers(runner, output, dtype):
    request = make_request(params=ICON, output=output)
    left = runner.execute(request, ignore)
    (value,) = left.tensors.values()
    assert value.dtype is dtype
    assert not left.is_image
    assert left.forward_ms > 0


def test_several_prompts_give_several_images(runner):
    request = make_request(params=ICON | {"prompt": [PROMPT, "a blue square"]})
    (images,) = runner.execute(request, ignore).tensors.values()
    assert images.shape == (2, 64, 64, 3)


@pytest.mark.parametrize("size", [24, 40])
def test_what_only_the_pipeline_can_refuse_is_an_invalid_argument(runner, size):
    with pytest.raises(InvalidArgumentError, match="ZImagePipeline: ValueError") as refused:
        icon(runner, height=size + 1, width=size)
    assert refused.value.field == "height"


def test_the_fake_draws_what_it_says(fake):
    _, (pixels,) = materialize(fake(seed=5))
    np.testing.assert_array_equal(pixels[0], picture(PROMPT, 5))


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("value error", InvalidArgumentError, "Pipeline: ValueError: `guidance_scale` is too high"),
        ("runtime error", InternalError, "RuntimeError: a bug in the model"),
        ("assertion", InternalError, "AssertionError"),
        ("out of memory", ResourceExhaustedError, "the device's memory is full: tried to allocate"),
    ],
)
def test_an_error_before_the_first_step_has_its_kind(fake, fault, kind, words):
    """RUNTIME-RULE-7."""
    with pytest.raises(kind, match=words):
        fake(fault=fault)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("value error", InternalError, "ValueError: `guidance_scale` is too high"),
        ("assertion", InternalError, "^AssertionError$"),
        ("out of memory", ResourceExhaustedError, "memory is full"),
    ],
)
def test_after_a_step_no_argument_is_to_blame(fake, fault, kind, words):
    with pytest.raises(kind, match=words):
        fake(fault=fault, fault_at=1)


def test_a_failed_forward_leaves_the_pipeline_usable(fake):
    with pytest.raises(InternalError):
        fake(fault="assertion", fault_at=2)
    assert fake().tensors


def test_the_parameter_that_the_pipeline_names_is_the_field(fake, monkeypatch):
    def refuse(*args, **kwargs):
        raise ValueError("`height` and `width` must be divisible by 3")

    monkeypatch.setattr(Pipeline, "__call__", refuse)
    with pytest.raises(InvalidArgumentError) as refused:
        fake()
    assert refused.value.field == "height"


def test_a_pipeline_without_callback_runs_without_progress(make_runner):
    steps = []
    runner = make_runner("WithoutSteps")
    output = runner.execute_model(make_request(), lambda *step: steps.append(step))
    assert output.tensors
    assert steps == []


def test_a_pipeline_without_output_is_an_error(fake, monkeypatch):
    monkeypatch.setattr(Pipeline, "__call__", lambda self, **given: {"text": "no picture"})
    with pytest.raises(InternalError, match="the pipeline returned no tensor, but a dict"):
        fake()


@pytest.mark.parametrize(
    ("returned", "shapes"),
    [
        (torch.zeros(2, 3), {"output_0": (2, 3)}),
        (
            (torch.zeros(1), None, [torch.zeros(2), torch.ones(2)]),
            {"output_0": (1,), "output_2": (2, 2)},
        ),
        ({"frames": [np.zeros((2, 2)), np.zeros((2, 2))], "text": "x"}, {"frames": (2, 2, 2)}),
        ({"images": [Image.new("RGB", (4, 6))]}, {"images": (1, 6, 4, 3)}),
    ],
)
def test_tensors_are_found_in_whatever_is_returned(fake, monkeypatch, returned, shapes):
    monkeypatch.setattr(Pipeline, "__call__", lambda self, **given: returned)
    assert {name: tuple(v.shape) for name, v in fake().tensors.items()} == shapes


def test_tensors_come_as_parameters(fake):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    output = fake(inputs=[given("latents", array)])
    np.testing.assert_array_equal(output.tensors["output_0"].numpy(), array)


@pytest.fixture
def seen(fake, monkeypatch):
    """The arguments that reach the pipeline's call."""
    arguments = {}

    def call(self, **given):
        arguments.update(given)
        return torch.zeros(1)

    monkeypatch.setattr(Pipeline, "__call__", call)
    return arguments


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_images_come_as_pictures(fake, seen, channels, mode):
    pixels = np.full((1, 4, 6, channels), 7, np.uint8)
    fake(inputs=[given("image", pixels, kind="image")])
    assert (seen["image"].mode, seen["image"].size) == (mode, (6, 4))


def test_several_images_come_as_a_list(fake, seen):
    fake(inputs=[given("image", np.zeros((2, 4, 4, 3), np.uint8), kind="image")])
    assert [picture.size for picture in seen["image"]] == [(4, 4), (4, 4)]


def test_floats_come_in_the_models_type_and_whole_numbers_as_they_are(fake, seen):
    fake(inputs=[given("mask", np.ones(2, np.float64)), given("ids", np.ones(2, np.int64))])
    assert (seen["mask"].dtype, seen["ids"].dtype) == (torch.float32, torch.int64)


def test_autograd_is_off_during_a_forward(fake, monkeypatch):
    monkeypatch.setattr(
        Pipeline, "__call__", lambda self, **given: torch.tensor([torch.is_grad_enabled()])
    )
    assert not fake().tensors["output_0"].item()
