import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image, ImageDraw

from icons.judge import Judge
from icons.prompts import GUIDANCE, PROMPTS, SIDE, STEPS
from icons.scenes import Scene

COLOURS = {"red": "#dc2626", "blue": "#2550eb", "yellow": "#fad728", "white": "#fafafa"}


@pytest.fixture(scope="module")
def judge():
    return Judge()


def circle(*, radius, colour, background):
    image = Image.new("RGB", (SIDE, SIDE), COLOURS[background])
    middle = SIDE / 2
    ImageDraw.Draw(image).ellipse(
        (middle - radius, middle - radius, middle + radius, middle + radius), COLOURS[colour]
    )
    return image


def test_the_judge_reads_object_colour_size_and_background(judge):
    image = circle(radius=13, colour="red", background="yellow")
    assert judge.see([image]) == [Scene("circle", "red", "yellow", "small")]


@pytest.mark.parametrize(
    ("prompt", "is_right"),
    [
        ("a red circle on a yellow background", True),
        ("a small red circle on a yellow background", True),
        ("a large red circle on a yellow background", False),
        ("a blue circle on a yellow background", False),
        ("a red circle", False),
        ("a red heart on a yellow background", False),
    ],
)
def test_all_that_the_prompt_names_must_be_right(judge, prompt, is_right):
    image = circle(radius=13, colour="red", background="yellow")
    assert judge.is_right([image], [prompt]) == [is_right]


def test_an_image_of_another_size_is_refused(judge):
    with pytest.raises(ValueError, match=r"\(32, 32\)"):
        judge.see([Image.new("RGB", (32, 32))])


def test_plain_diffusers_draws_what_the_demo_asks_for(judge, icons_model):
    pipe = DiffusionPipeline.from_pretrained(icons_model)
    pipe.set_progress_bar_config(disable=True)
    images = [
        pipe(
            prompt,
            height=SIDE,
            width=SIDE,
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            generator=torch.Generator().manual_seed(seed),
        ).images[0]
        for seed, prompt in enumerate(PROMPTS)
    ]
    assert sum(judge.is_right(images, PROMPTS)) >= 15
