"""A multiprocess executor whose workers are played by the test."""

import subprocess

import pytest

from diffusion_stage.config.resolve import resolve
from diffusion_stage.executor import handle
from diffusion_stage.executor.multiproc import MultiprocDiffusionExecutor
from diffusion_stage.scheduler.output import (
    CachedRequestData,
    DiffusionSchedulerOutput,
    NewRequestData,
)
from tests.fakes.worker import FakeWorker
from tests.stage.builders import make_config, make_request


class Stage:
    """The executor, its workers in order of rank, and the progress that it told."""

    def __init__(self, **given):
        self.progress = []
        config = make_config(**given)
        self.executor = MultiprocDiffusionExecutor(config, resolve(config), self._note)
        self.workers = []

    def _note(self, *progress):
        self.progress.append(progress)

    def schedule(self, *request_ids, finished=()):
        """Executes a scheduler's output with these new requests and these ends."""
        new = tuple(NewRequestData(i, make_request(i, seed=n)) for n, i in enumerate(request_ids))
        output = DiffusionSchedulerOutput(
            step_id=1,
            scheduled_new_reqs=new,
            scheduled_cached_reqs=CachedRequestData(),
            finished_req_ids=frozenset(finished),
            num_running_reqs=len(new),
            num_waiting_reqs=0,
        )
        return list(self.executor.execute_batch(output).outputs)

    @property
    def has_news(self):
        """Whether a worker has said something, or died."""
        is_dying = any(each.is_dying for each in self.executor._handles)
        return is_dying or bool(self.executor._selector.select(0))

    def wait(self):
        """What the workers have said by now; raises a death after that."""
        outputs = []
        while self.has_news:
            outputs += self.executor.wait(0).outputs
        return outputs


@pytest.fixture
def make_stage(monkeypatch):
    """Makes executors, not started."""
    stages = []

    def make(**given):
        stage = Stage(**given)
        stages.append(stage)

        def launch(*args, **kwargs):
            worker = FakeWorker(*args, **kwargs)
            stage.workers.append(worker)
            return worker

        monkeypatch.setattr(handle.subprocess, "Popen", launch)
        return stage

    assert handle.subprocess is subprocess
    yield make
    for stage in stages:
        stage.executor.shutdown(grace_s=0)
        for worker in stage.workers:
            worker.dispose()


@pytest.fixture
def stage(make_stage):
    """Started, with two workers that have said that they are ready."""
    stage = make_stage(num_gpus=2)
    stage.executor.start()
    for worker in stage.workers:
        assert worker.heard() == []
    return stage
