import urllib.request

import pytest

from diffusion_operator.failures import failures
from diffusion_operator.metrics import Metrics, MetricsServer
from diffusion_operator.status import Pass, compute_status
from tests.operator.builders import NOW, WORKER_DIED, ended, make_pod, make_stage, observed

STAGE = make_stage(replicas=2)
ABOUT = 'namespace="ns",stage="flux"'


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def scrape(metrics):
    server = MetricsServer(metrics, 0)

    def _scrape():
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            return answer.read().decode().splitlines()

    yield _scrape
    server.close()


def status(*pods):
    found = Pass(observed(*pods), obstacle=None, warning=None, old={}, now=NOW)
    return compute_status(STAGE, found)


def test_a_stage_shows_its_conditions_replicas_and_budget_until_it_is_gone(metrics, scrape):
    dead = make_pod(1, state=ended(71, message=WORKER_DIED))
    metrics.set_stage(STAGE, status(make_pod(0, ready=True), dead))
    lines = scrape()
    assert f'diffusionstage_condition{{{ABOUT},status="False",type="Ready"}} 1.0' in lines
    assert f'diffusionstage_replicas{{{ABOUT},state="Ready"}} 1.0' in lines
    assert f"diffusionstage_restart_budget_remaining{{{ABOUT}}} 4.0" in lines
    metrics.forget_stage("ns", "flux")
    assert not [line for line in scrape() if ABOUT in line]


def test_deaths_are_counted_by_reason_and_exit_code(metrics, scrape):
    [failure] = failures(observed(make_pod(last=ended(71, message=WORKER_DIED))))
    metrics.count_death(STAGE, failure)
    about = f'exit_code="71",{ABOUT.split(",", maxsplit=1)[0]},reason="WorkerDied",stage="flux"'
    assert f"diffusionstage_engine_deaths_total{{{about}}} 1.0" in scrape()


def test_passes_are_counted_and_those_that_failed(metrics, scrape):
    metrics.count_pass(0.02, has_failed=False)
    metrics.count_pass(0.02, has_failed=True)
    lines = scrape()
    assert "diffusionstage_reconcile_seconds_count 2.0" in lines
    assert "diffusionstage_reconcile_errors_total 1.0" in lines
    assert metrics.last_pass_age_s() < 60
    [age] = [one for one in lines if one.startswith("diffusionstage_last_pass_age_seconds ")]
    assert 0 <= float(age.split()[1]) < 60
