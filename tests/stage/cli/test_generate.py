"""`diffusion-stage generate` against a fake stage."""

import argparse
import json

import numpy as np
import pytest
from PIL import Image

from diffusion_stage.cli import main
from diffusion_stage.cli.generate import parameter
from tests.fakes.stage import FakeStage, answer, fail, pixels
from tests.fakes.threads import StageThread


@pytest.fixture
def stage():
    running = StageThread(FakeStage("flux-0"))
    yield running.stage
    running.stop()


def generate(stage, *given):
    return main(["generate", "--address", stage.address, *map(str, given)])


def test_prompts_become_files_that_tell_their_recipe(stage, tmp_path, capsys):
    prompts = ["--prompt", "a red circle", "--prompt", "Grüne Ärmel!"]
    flags = ["--steps", 4, "--height", 64, "--guidance-scale", 1.5, "--param", 'mode="x"']
    assert generate(stage, *prompts, "--seed", 5, *flags, "--out", tmp_path / "new") == 0
    first, second = capsys.readouterr().out.split()
    assert first.endswith("new/01-a-red-circle.png")
    assert second.endswith("new/02-grüne-ärmel.png")
    with Image.open(second) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels(6)[0])
        text = dict(image.text)
    given = {"num_inference_steps": 4, "height": 64, "guidance_scale": 1.5, "mode": "x"}
    assert json.loads(text.pop("parameters")) == given
    assert text.pop("request_id") in {task.submit.request_id for task in stage.tasks}
    assert text == {
        "prompt": "Grüne Ärmel!",
        "seed": "6",
        "model": "fake/model",
        "replica": "flux-0",
    }
    assert stage.tasks[0].submit.params == {"prompt": "a red circle", **given}


def test_outcomes_are_told_as_json(stage, tmp_path, capsys):
    assert generate(stage, "--prompt", "a", "--seed", 1, "--json", "--out", tmp_path) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert outcome["files"] == [str(tmp_path / "01-a.png")]
    assert (outcome["prompt"], outcome["seed"], outcome["replica"]) == ("a", 1, "flux-0")
    assert (outcome["attempts"], outcome["error"]) == (1, None)


def test_several_images_of_a_prompt_are_numbered(stage, tmp_path, capsys):
    async def two(task):
        task.result(np.concatenate([pixels(1), pixels(2)]))

    stage.script = two
    assert generate(stage, "--prompt", "a", "--out", tmp_path) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["01-a-1.png", "01-a-2.png"]


def test_outputs_that_are_no_images_are_saved_as_arrays(stage, tmp_path):
    async def video(task):
        task.result(np.zeros((1, 2, 4, 4, 3), np.uint8), kind="video")

    stage.script = video
    assert generate(stage, "--prompt", "a", "--out", tmp_path) == 0
    assert np.load(tmp_path / "01-a-images.npy").shape == (1, 2, 4, 4, 3)


def test_a_failed_prompt_is_told_and_the_others_go_on(stage, tmp_path, capsys):
    async def picky(task):
        is_bad = task.submit.params["prompt"] == "bad"
        await (fail("INVALID_ARGUMENT", message="no bad words") if is_bad else answer)(task)

    stage.script = picky
    assert generate(stage, "--prompt", "bad", "--prompt", "good", "--out", tmp_path) == 1
    said = capsys.readouterr()
    assert said.out.split() == [str(tmp_path / "02-good.png")]
    assert "'bad': failed: no bad words" in said.err


def test_a_stage_that_is_not_there_is_told(tmp_path, capsys):
    command = ["generate", "--address", "tcp://127.0.0.1:1", "--prompt", "a"]
    assert main([*command, "--connect-timeout", "0.1", "--out", str(tmp_path)]) == 1
    assert "tcp://127.0.0.1:1: no connection" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_refused(stage, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert generate(stage, "--prompt", "a", "--out", tmp_path / "file") == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("strength=0.5", ("strength", 0.5)),
        ("negative_prompt=a b", ("negative_prompt", "a b")),
        ('sizes=[1, {"a": null}]', ("sizes", [1, {"a": None}])),
        ("expression=a=b", ("expression", "a=b")),
        ("empty=", ("empty", "")),
    ],
)
def test_a_parameter_is_json_or_text(text, expected):
    assert parameter(text) == expected


@pytest.mark.parametrize("text", ["strength", "=1", ""])
def test_what_is_no_parameter_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not NAME=VALUE"):
        parameter(text)
