"""Weights to a pipeline, or the reason why not, with the exit code of whoever must act."""

import json
import shutil

import pytest
import torch

from diffusion_stage.config.imports import import_class
from diffusion_stage.errors import ConfigError, DeviceMemoryError, ModelError
from diffusion_stage.pipelines.loader import load
from diffusion_stage.pipelines.source import ModelSource

FAKES = "tests.fakes.pipelines"


def load_from(folder, pipeline_class=None):
    return load(
        ModelSource(str(folder), None, is_local=True),
        device=torch.device("cpu"),
        dtype=torch.float32,
        pipeline_class=pipeline_class,
    )


@pytest.fixture
def damaged(icons_model, tmp_path):
    """A copy of the icon model to damage."""
    return shutil.copytree(icons_model, tmp_path / "model")


def test_the_models_own_index_chooses_the_pipeline(icons_model):
    assert type(load_from(icons_model)).__name__ == "ZImagePipeline"


def test_a_class_of_ones_own_is_found_by_its_import_path(tmp_path):
    assert type(load_from(tmp_path, f"{FAKES}:Pipeline")).__name__ == "Pipeline"


@pytest.mark.parametrize(
    "path", ["no.such.module:Class", f"{FAKES}:NoSuchClass", "", "Pipeline", ":Pipeline", "os:"]
)
def test_a_class_that_cannot_be_imported_is_a_wrong_configuration(path):
    with pytest.raises(ConfigError, match="allowed: module:Class, importable") as refused:
        import_class(path)
    assert repr(path) in str(refused.value)


def test_a_model_that_does_not_fit_is_a_device_too_small(tmp_path):
    with pytest.raises(DeviceMemoryError, match="does not fit on cpu: tried to allocate 80 GiB"):
        load_from(tmp_path, f"{FAKES}:TooLarge")


def test_what_a_class_raises_on_reading_is_told(tmp_path):
    with pytest.raises(ModelError, match=f"model {tmp_path}: OSError: no file named model.safe"):
        load_from(tmp_path, f"{FAKES}:Unreadable")


def no_json(folder):
    (folder / "model_index.json").write_text("{not json")


def no_object(folder):
    (folder / "model_index.json").write_text("[1, 2]")


def empty_object(folder):
    (folder / "model_index.json").write_text("{}")


def unknown_class(folder):
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"_class_name": "NoSuchPipeline"}))


def missing_weights(folder):
    (folder / "transformer" / "diffusion_pytorch_model.safetensors").unlink()


def truncated_weights(folder):
    path = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(path.read_bytes()[:100_000])


def truncated_weights_of_transformers(folder):
    path = folder / "text_encoder" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100_000])


def weights_of_another_shape(folder):
    path = folder / "vae" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"latent_channels": config["latent_channels"] * 2}))


def inconsistent_configuration(folder):
    path = folder / "transformer" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dim": 224}))


def missing_part(folder):
    shutil.rmtree(folder / "scheduler")


def no_tokenizer(folder):
    (folder / "tokenizer" / "tokenizer.json").write_text("x")


@pytest.mark.parametrize(
    "damage",
    [
        no_json,
        no_object,
        empty_object,
        unknown_class,
        missing_weights,
        truncated_weights,
        truncated_weights_of_transformers,
        weights_of_another_shape,
        inconsistent_configuration,
        missing_part,
        no_tokenizer,
    ],
)
@pytest.mark.filterwarnings("ignore")  # diffusers warns of what it then fails at
def test_a_damaged_model_is_one_that_cannot_be_read(damaged, damage):
    damage(damaged)
    with pytest.raises(ModelError, match=f"model {damaged}: ") as unreadable:
        load_from(damaged)
    assert unreadable.value.exit_code == 66
