"""Engines, schedulers, executors and runners of one's own."""

import warnings

import pytest

from diffusion_stage.config.resolve import resolve
from diffusion_stage.engine.engine import DiffusionEngine
from diffusion_stage.errors import ConfigError
from diffusion_stage.executor.executor import make_executor
from diffusion_stage.scheduler.base import BaseScheduler, SchedulerInterface
from diffusion_stage.scheduler.request import RequestScheduler
from diffusion_stage.worker.runner import DiffusionModelRunner
from diffusion_stage.worker.worker import DiffusionWorker
from tests.fakes.executor import FakeExecutor
from tests.stage.builders import make_config, make_request, make_spec

HERE = "tests.stage.engine.test_extension"


class OwnEngine(DiffusionEngine):
    default_diffusion_model_runner_cls = f"{HERE}:OwnRunner"


class OwnRunner(DiffusionModelRunner):
    """Chosen by the engine."""


class ChosenRunner(DiffusionModelRunner):
    """Chosen by the configuration."""


def config(**given):
    return make_config(executor="tests.fakes.executor:FakeExecutor", **given)


def test_an_engine_class_is_found_by_its_import_path():
    engine = DiffusionEngine.make_engine(config(engine_class=f"{HERE}:OwnEngine"))
    assert type(engine) is OwnEngine
    assert engine.capabilities is not None


def test_a_class_that_is_no_engine_is_refused():
    with pytest.raises(ConfigError, match="OwnRunner' is no DiffusionEngine; allowed: a subclass"):
        DiffusionEngine.of(config(engine_class=f"{HERE}:OwnRunner"))


def test_the_engines_runner_class_is_used_and_the_configured_one_wins():
    own = f"{HERE}:OwnEngine"
    assert DiffusionEngine.of(config()).runtime.model_runner is None
    assert DiffusionEngine.of(config(engine_class=own)).runtime.model_runner == f"{HERE}:OwnRunner"
    chosen = {"diffusion_model_runner_cls": f"{HERE}:ChosenRunner"}
    engine = DiffusionEngine.of(config(engine_class=own, **chosen))
    assert engine.runtime.model_runner == f"{HERE}:ChosenRunner"


@pytest.mark.parametrize(
    ("path", "kind"),
    [(None, DiffusionModelRunner), (f"{HERE}:OwnRunner", OwnRunner)],
)
def test_the_worker_makes_that_runner(path, kind, fake_model):
    worker = DiffusionWorker(make_spec(model_uri=str(fake_model), model_runner=path))
    worker.init_device()
    worker.load_model()
    assert type(worker._runner) is kind


def test_an_executor_class_is_found_by_its_import_path():
    made = config()
    executor = make_executor(made, resolve(made), lambda *_: None)
    assert isinstance(executor, FakeExecutor)


@pytest.mark.parametrize("name", ["ray", "external_launcher", "module.without.a.class", ""])
def test_other_backends_are_refused_at_once(name):
    """A25."""
    with pytest.raises(ValueError, match="executor"):
        make_config(executor=name)


def test_a_class_that_is_no_executor_is_refused():
    made = make_config(executor=f"{HERE}:OwnRunner")
    with pytest.raises(ConfigError, match="is no DiffusionExecutor"):
        make_executor(made, resolve(made), lambda *_: None)


def test_a_scheduler_of_ones_own_decides():
    class LastFirst(RequestScheduler):
        def add_request(self, request):
            self._last = request.request_id
            super().add_request(request)

    scheduler = LastFirst()
    engine = DiffusionEngine.make_engine(config(), scheduler)
    engine.add_request(make_request("a"), lambda stream: None)
    assert scheduler._last == "a"
    assert scheduler.num_waiting_reqs == 1


def test_the_former_name_of_the_scheduler_still_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="Old: SchedulerInterface is now called BaseSched"):

        class Old(SchedulerInterface):
            pass

    assert issubclass(Old, BaseScheduler)
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class New(BaseScheduler):
            pass

    assert New().num_waiting_reqs == 0
