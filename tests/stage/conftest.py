"""What tests of several packages of the stage share: the icon model, loaded once."""

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def runner(icons_model):
    """A model runner with the icon model; `capabilities` is what it told, `pipe` the pipeline."""
    import torch

    from diffusion_stage.pipelines.source import find
    from diffusion_stage.worker.runner import DiffusionModelRunner

    runner = DiffusionModelRunner(torch.device("cpu"), torch.float32)
    capabilities = runner.load_model(find(str(icons_model), None), pipeline_class=None)
    return SimpleNamespace(
        execute=runner.execute_model, capabilities=capabilities, pipe=runner._pipeline
    )


@pytest.fixture
def fake_model(tmp_path):
    """A folder that passes for a model; `--pipeline-class` says what is loaded."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model_index.json").write_text("{}")
    return folder
