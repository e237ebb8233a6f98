"""Stages in processes of their own."""

import pytest

from tests.stage.process import FAKE, StageProcess


def _serve(folder, model, kind, **flags):
    if kind is not None:
        flags["pipeline_class"] = f"{FAKE}:{kind}"
    return StageProcess(folder, model=model, **flags)


@pytest.fixture
def serve(tmp_path, fake_model):
    """Starts stages with a pipeline of `tests.fakes.pipelines`; they end with the test."""
    stages = []

    def start(kind="Pipeline", *, model=fake_model, **flags):
        stages.append(_serve(tmp_path / f"stage-{len(stages)}", model, kind, **flags))
        return stages[-1]

    yield start
    for stage in stages:
        stage.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One stage with two workers for all tests of a module; each leaves it as it was."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "model").mkdir()
    (folder / "model" / "model_index.json").write_text("{}")
    stage = _serve(folder, folder / "model", "Pipeline", num_gpus=2, max_queue=8, hang_timeout_s=60)
    yield stage.wait_ready()
    stage.close()
