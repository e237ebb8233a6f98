"""What a pipeline's call accepts, as its signature and configuration tell it."""

from typing import Any, Optional, Union

import torch

from diffusion_stage.capabilities import Parameter
from diffusion_stage.pipelines.inspection import capabilities
from tests.fakes.pipelines import Pipeline, WithoutSteps


class Typed:
    @torch.no_grad()
    def __call__(
        self,
        prompt: Union[str, list[str], None] = None,  # noqa: UP007  # as diffusers writes it
        height: Optional[int] = None,  # noqa: UP045  # 〃
        *args,
        strength: float = 0.5,
        image: "torch.Tensor | None" = None,
        latents: torch.Tensor | None = None,
        sizes: tuple[int, int] = (1, 2),
        callback: Any = None,
        required: dict[str, Any] = ...,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
        **options,
    ): ...


def found(pipeline):
    return capabilities(pipeline).parameters


def test_types_come_from_annotations_and_unknown_ones_allow_anything():
    parameters = found(Typed())
    assert {name: each.types for name, each in parameters.items()} == {
        "prompt": ("str", "list"),
        "height": ("int",),
        "strength": ("float",),
        "image": (),
        "latents": ("tensor",),
        "sizes": ("list",),
        "required": ("dict",),
    }


def test_only_plain_defaults_are_told():
    parameters = found(Typed())
    assert parameters["strength"] == Parameter(types=("float",), default=0.5)
    assert parameters["sizes"].default is None


def test_a_parameter_without_default_is_required():
    class Needy:
        def __call__(self, image, *more, strength=1.0, **options): ...

    assert {name: each.required for name, each in found(Needy()).items()} == {
        "image": True,
        "strength": False,
    }


def test_the_callback_tells_whether_steps_can_be_followed():
    assert capabilities(Pipeline()).has_step_callback
    assert capabilities(Pipeline()).has_output_type
    assert not capabilities(WithoutSteps()).has_step_callback
    assert not capabilities(WithoutSteps()).has_output_type


def test_without_an_image_processor_any_size_goes():
    assert (capabilities(Pipeline()).size_multiple, capabilities(Pipeline()).max_size) == (1, None)


def test_the_icon_model_tells_its_sizes(runner):
    told = runner.capabilities
    assert told.pipeline == "ZImagePipeline"
    assert told.default_steps == told.parameters["num_inference_steps"].default
    assert {"prompt", "height", "width", "num_inference_steps"} <= told.parameters.keys()
    assert "generator" not in told.parameters
    assert told.max_size % told.size_multiple == 0
