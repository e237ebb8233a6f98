"""Stages in processes of their own."""

import itertools

import pytest

from tests.stage.process import FAKE, StageProcess


class Stages:
    """Starts stages with a pipeline of `tests.fakes.pipelines`, or with a real model."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._numbers = itertools.count()
        self._started = []
        self._model = folder / "model"
        self._model.mkdir()
        (self._model / "model_index.json").write_text("{}")

    def __call__(self, kind="Pipeline", *, model=None, **flags):
        if kind is not None:
            flags = {"pipeline_class": f"{FAKE}:{kind}"} | flags
        folder = self._folder / f"stage-{next(self._numbers)}"
        stage = StageProcess(folder, model=model or self._model, **flags)
        self._started.append(stage)
        return stage

    def close(self):
        for stage in self._started:
            stage.close()


@pytest.fixture
def serve(tmp_path):
    """Starts stages, which end with the test."""
    stages = Stages(tmp_path / "stages")
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory):
    """Starts stages, which end with the module."""
    stages = Stages(tmp_path_factory.mktemp("stages"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def shared(serve_module):
    """One stage with two workers for all tests of a module; each leaves it as it was."""
    return serve_module(num_gpus=2, max_queue=8, hang_timeout_s=60).wait_ready()
