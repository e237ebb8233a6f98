"""Bad input: each refusal names the parameter, its value and what is allowed."""

import math

import numpy as np
import pytest

from diffusion_stage.capabilities import Capabilities, Parameter
from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.validation import validate
from diffusion_stage.wire.tensors import describe, frame
from tests.stage.builders import CAPABILITIES, make_submit

EMBEDS = np.ones((2, 3), np.float32)
UNTYPED = Capabilities(
    pipeline="Untyped",
    parameters={name: Parameter() for name in ("prompt", "height", "width", "num_inference_steps")},
    has_step_callback=True,
    has_output_type=True,
)


def check(capabilities=CAPABILITIES, *, payload=(), now=100.0, **given):
    return validate(make_submit(**given), payload, capabilities, now)


@pytest.mark.parametrize(
    ("given", "field", "value", "allowed"),
    [
        ({"widht": 64}, "widht", "64", "a parameter of FakePipeline: anything, guidance_scale"),
        ({"generator": 1}, "generator", "1", "a parameter of FakePipeline"),
        ({"callback_on_step_end": "x"}, "callback_on_step_end", "'x'", "a parameter of"),
        ({"height": 63}, "height", "63", "a multiple of 16 from 16 to 64"),
        ({"height": 0}, "height", "0", "a multiple of 16 from 16 to 64"),
        ({"width": -16}, "width", "-16", "a multiple of 16 from 16 to 64"),
        ({"width": 80}, "width", "80", "a multiple of 16 from 16 to 64"),
        ({"height": "64"}, "height", "'64'", "of type int"),
        ({"height": 64.0}, "height", "64.0", "of type int"),
        ({"height": True}, "height", "True", "of type int"),
        ({"num_inference_steps": 0}, "num_inference_steps", "0", "1 to 10000"),
        ({"num_inference_steps": -1}, "num_inference_steps", "-1", "1 to 10000"),
        ({"num_inference_steps": 10_001}, "num_inference_steps", "10001", "1 to 10000"),
        ({"num_inference_steps": "20"}, "num_inference_steps", "'20'", "of type int"),
        ({"num_images_per_prompt": 65}, "num_images_per_prompt", "65", "1 to 64"),
        ({"guidance_scale": "high"}, "guidance_scale", "'high'", "of type float"),
        ({"guidance_scale": math.nan}, "guidance_scale", "nan", "a finite number"),
        ({"guidance_scale": math.inf}, "guidance_scale", "inf", "a finite number"),
        ({"prompt": None}, "prompt", "missing", "a string, a list of strings, or prompt_embeds"),
        ({"prompt": 5}, "prompt", "5", "of type str or list"),
        ({"prompt": ["a", 5]}, "prompt", "['a', 5]", "a string or a list of strings"),
        ({"prompt": []}, "prompt", "[]", "a string or a list of strings"),
        ({"negative_prompt": ["a"]}, "negative_prompt", "['a']", "of type str"),
        ({"sigmas": 1.0}, "sigmas", "1.0", "of type list"),
        ({"output": "jpeg"}, "output", "'jpeg'", "image, tensor, latent"),
        ({"seed": -1}, "seed", "-1", "0 to 9223372036854775807"),
        ({"seed": 2**63}, "seed", str(2**63), "0 to 9223372036854775807"),
        ({"deadline_s": 0.0}, "deadline_s", "0.0", "a positive number of seconds"),
        ({"deadline_s": math.nan}, "deadline_s", "nan", "a positive number of seconds"),
        ({"deadline_s": math.inf}, "deadline_s", "inf", "a positive number of seconds"),
        ({"request_id": ""}, "request_id", "''", "1 to 128 characters"),
        ({"request_id": "x" * 129}, "request_id", "'xxx", "1 to 128 characters"),
    ],
)
def test_a_refusal_names_the_parameter_its_value_and_what_is_allowed(given, field, value, allowed):
    with pytest.raises(InvalidArgumentError) as refused:
        check(**given)
    words = str(refused.value)
    assert refused.value.field == field
    assert words.startswith(field)
    assert value in words
    assert f"allowed: {allowed}" in words


@pytest.mark.parametrize("name", ["height", "width", "num_inference_steps"])
@pytest.mark.parametrize("value", ["64", 6.5, [64], True])
def test_counts_and_sizes_are_whole_numbers_also_where_the_pipeline_names_no_type(name, value):
    with pytest.raises(InvalidArgumentError, match=f"^{name} is .*; allowed: a whole number"):
        check(UNTYPED, **{name: value})


@pytest.mark.parametrize("value", [5, [5], []])
def test_a_prompt_is_text_also_where_the_pipeline_names_no_type(value):
    with pytest.raises(InvalidArgumentError, match=r"^prompt is .* a list of strings"):
        check(UNTYPED, prompt=value)


def test_sizes_without_a_bound_of_the_model_end_at_a_common_one():
    with pytest.raises(InvalidArgumentError, match="a multiple of 1 from 1 to 16384"):
        check(UNTYPED, height=16_385)


def test_a_parameter_without_default_is_required():
    needs_image = Capabilities(
        pipeline="Needy",
        parameters={"image": Parameter(required=True), "strength": Parameter()},
        has_step_callback=False,
        has_output_type=False,
    )
    with pytest.raises(InvalidArgumentError, match="image missing; allowed: a value: Needy needs"):
        check(needs_image, prompt=None, strength=1.0)


def test_a_prompt_may_come_as_embeddings_instead():
    given = describe("prompt_embeds", EMBEDS)
    request = check(prompt=None, inputs=[given], payload=[frame(EMBEDS)])
    assert [(each.spec, each.data) for each in request.inputs] == [(given, EMBEDS.tobytes())]


def test_a_tensor_under_a_name_that_is_given_already_is_refused():
    given = describe("prompt", EMBEDS)
    with pytest.raises(InvalidArgumentError, match="prompt is 'given twice'; allowed: one value"):
        check(inputs=[given], payload=[frame(EMBEDS)])


def test_a_tensor_under_an_unknown_name_is_refused():
    given = describe("lantents", EMBEDS)
    with pytest.raises(InvalidArgumentError, match="lantents is 'a tensor'; allowed: a parameter"):
        check(inputs=[given], payload=[frame(EMBEDS)])


def test_a_tensor_whose_bytes_do_not_fit_its_description_is_refused():
    given = describe("prompt_embeds", EMBEDS)
    with pytest.raises(InvalidArgumentError, match="4 bytes") as refused:
        check(prompt=None, inputs=[given], payload=[b"1234"])
    assert refused.value.field == "prompt_embeds"


def test_long_values_and_names_are_shortened_in_the_words():
    with pytest.raises(InvalidArgumentError) as refused:
        check(**{"x" * 10_000: "y" * 10_000})
    assert len(str(refused.value)) < 1000
    assert len(refused.value.field) <= 128


def test_a_valid_request_is_taken_as_it_is():
    params = {"prompt": ["a", "b"], "height": 64, "guidance_scale": 4, "anything": {"k": [1]}}
    request = check(**params, seed=7, attempt=3, priority=-2, output="latent", deadline_s=5.0)
    assert request.params == params
    assert (request.seed, request.attempt, request.priority, request.output) == (7, 3, -2, "latent")
    assert (request.arrived_at, request.deadline_at) == (100.0, 105.0)


def test_none_leaves_a_parameter_to_the_pipeline():
    assert check(guidance_scale=None).params == {"prompt": "a red circle"}


def test_the_stage_chooses_a_seed_for_who_names_none():
    assert {check(seed=None).seed for _ in range(3)} != {check(seed=None).seed}
