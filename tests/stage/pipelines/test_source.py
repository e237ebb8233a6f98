"""Where a model is looked for, and the words when it is not there."""

import pytest

from diffusion_stage.errors import ModelError
from diffusion_stage.pipelines.source import ModelSource, find


def test_a_folder_with_an_index_is_a_local_model(tmp_path):
    (tmp_path / "model_index.json").write_text("{}")
    assert find(str(tmp_path), "v1") == ModelSource(str(tmp_path), None, is_local=True)


def test_a_repository_of_the_hub_keeps_its_revision():
    assert find("hf://org/name", "v1") == ModelSource("org/name", "v1", is_local=False)


@pytest.mark.parametrize("uri", ["models/m", "s3://bucket/m", "org/name", ""])
def test_other_places_are_refused_with_what_is_allowed(uri):
    with pytest.raises(ModelError, match="allowed: an absolute path, or hf://organisation/name"):
        find(uri, None)


def test_a_missing_folder_is_told_with_what_lies_beside_it(tmp_path):
    (tmp_path / "flux").mkdir()
    (tmp_path / "wan").mkdir()
    with pytest.raises(ModelError) as missing:
        find(f"{tmp_path}/flax/deep", None)
    assert str(missing.value) == (
        f"model {tmp_path}/flax/deep: no such folder; "
        f"looked for {tmp_path}/flax/deep/model_index.json. {tmp_path} has flux, wan"
    )
    assert missing.value.exit_code == 66


def test_a_folder_without_an_index_is_told_with_what_it_holds(tmp_path):
    (tmp_path / "model.ckpt").touch()
    with pytest.raises(ModelError, match=r"not a pipeline; looked for .*model_index.json, found m"):
        find(str(tmp_path), None)


def test_an_empty_folder_as_of_a_volume_that_is_not_mounted_is_told(tmp_path):
    with pytest.raises(ModelError, match="found nothing"):
        find(str(tmp_path), None)


def test_a_file_is_no_model(tmp_path):
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(ModelError, match="no such folder"):
        find(str(path), None)


def test_a_folder_that_cannot_be_looked_at_is_a_model_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match="File name too long"):
        find(f"{tmp_path}/{'m' * 300}", None)
