"""How a death shows, on real pods."""

import time

import pytest

from tests.cluster.operator.stages import DEAD_WORKER, template, until
from tests.cluster.operator.test_life import table

pytestmark = pytest.mark.cluster


def test_a_dead_worker_is_reported_once_with_reason_exit_code_and_rank(operator, stages, installed):
    stages.make("dying", replicas=2)
    before = stages.pods("dying")
    stages.ask("dying-1", DEAD_WORKER)
    until(lambda: stages.condition("dying")["reason"] == "WorkerDied", within_s=10)
    message = stages.condition("dying")["message"]
    assert "dying-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9)" in message
    assert stages.condition("dying", "Available")["status"] == "True"
    stages.wait("dying")
    status = stages.status("dying")
    assert (status["restarts"]["total"], status["restarts"]["budgetRemaining"]) == (1, 4)
    assert status["lastFailure"]["message"] == "worker 1 was killed by SIGKILL"
    columns = table(installed, "dying", "-o", "wide")
    names = ("LAST-FAILURE", "EXIT", "RANK", "DEVICE", "FAILED-POD", "RESTARTS")
    assert [columns[name] for name in names] == ["WorkerDied", "71", "1", "cpu:1", "dying-1", "1"]
    assert "WorkerDied" in installed.kubectl("describe", "dstage", "dying").partition("Events:")[2]
    after = stages.pods("dying")
    assert after["dying-0"] == before["dying-0"], "the other replica is left alone"
    assert after["dying-1"][0] == before["dying-1"][0], "the kubelet restarts it in place"


def test_a_death_is_not_counted_again_by_a_new_operator(operator, stages, installed):
    stages.make("counted")
    stages.ask("counted-0", DEAD_WORKER)
    until(lambda: stages.status("counted")["restarts"]["total"] == 1)
    stages.wait("counted")
    operator.restart()
    log = operator.log.stat().st_size
    until(lambda: "applied StatefulSet counted" in operator.log.read_text()[log:])
    time.sleep(1)
    assert stages.status("counted")["restarts"]["total"] == 1
    listed = installed.kubectl(
        *("get", "events.events.k8s.io", "--field-selector", "reason=WorkerDied", "-o", "name")
    )
    assert listed.count("/counted.") == 1


def restarted(pod):
    [container] = pod["status"]["containerStatuses"]
    return container["restartCount"] == 1 and container["ready"]


def test_a_death_while_the_operator_is_away_is_caught_up_and_no_pod_is_touched(
    operator, stages, installed
):
    stages.make("absent", replicas=2)
    operator.kill()
    stages.ask("absent-0", DEAD_WORKER)
    until(lambda: restarted(installed.get("pod", "absent-0")))
    before = stages.pods("absent")
    operator.start()
    until(lambda: stages.status("absent").get("lastFailure"))
    stages.wait("absent")
    assert stages.status("absent")["lastFailure"]["workerRank"] == 1
    assert stages.pods("absent") == before


def test_a_missing_model_names_the_path_and_is_not_tried_at_full_speed(operator, stages):
    stages.make("missing", ready=False, model={"uri": "/models/none"})
    until(lambda: stages.condition("missing")["reason"] == "ModelUnavailable")
    until(lambda: "kubelet tries again" in stages.condition("missing")["message"])
    message = stages.condition("missing")["message"]
    assert "exit 66" in message
    assert "/models/none: no such folder; looked for model_index.json" in message
    assert stages.condition("missing", "Degraded")["reason"] == "ModelUnavailable"
    seen = stages.status("missing")["restarts"]["total"]
    time.sleep(8)
    assert stages.status("missing")["restarts"]["total"] <= seen + 2


def test_the_kernels_kill_for_memory_is_told(operator, stages):
    limited = template(resources={"limits": {"memory": "64Mi"}})
    stages.make("hungry", podTemplate=limited)
    stages.ask("hungry-0", "eat")
    until(lambda: stages.status("hungry").get("lastFailure"))
    assert stages.status("hungry")["lastFailure"]["reason"] == "OOMKilled"


def test_too_many_deaths_use_up_the_budget(operator, stages):
    stages.make("budget", failurePolicy={"restartBudget": 1})
    stages.ask("budget-0", DEAD_WORKER)
    until(lambda: stages.status("budget")["restarts"]["total"] == 1)
    stages.wait("budget")
    assert stages.condition("budget", "Degraded")["reason"] == "RestartBudgetExhausted"


def test_a_deleted_pod_is_no_death(operator, stages, installed):
    stages.make("replaced")
    installed.kubectl("delete", "pod", "replaced-0")
    stages.wait("replaced")
    assert stages.status("replaced")["restarts"]["total"] == 0
