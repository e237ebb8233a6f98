"""What the operator does about deaths, on real pods."""

import json

import pytest

from tests.cluster.operator.rights import NODE_RIGHTS
from tests.cluster.operator.stages import BAD_DEVICE, DEAD_WORKER, until

pytestmark = pytest.mark.cluster


def events(installed, name, reason):
    listed = installed.kubectl("get", "events.events.k8s.io", "-o", "json")
    return [
        one["note"]
        for one in json.loads(listed)["items"]
        if (one["regarding"]["name"], one["reason"]) == (name, reason)
    ]


def kill(stages, pod, path=DEAD_WORKER):
    """Once the container serves, and until it does no more."""
    before = until(lambda: serving(stages, pod))
    stages.ask(pod, path)
    until(lambda: serving(stages, pod) != before)


def serving(stages, pod):
    """The id of the pod's container, once that is ready."""
    found = stages.pod(pod)
    [container] = found.get("status", {}).get("containerStatuses", [{}])
    return container.get("containerID") if container.get("ready") else None


def test_a_pod_that_died_often_in_one_place_is_placed_anew_and_told_of_once(
    operator, stages, installed
):
    """T22: the StatefulSet is left alone, so no other pod is replaced."""
    policy = {"replacePodAfterRestarts": 2, "restartBudget": 9}
    stages.make("moved", replicas=2, failurePolicy=policy)
    before = stages.pods("moved")
    revision = stages.status("moved")["updateRevision"]
    kill(stages, "moved-0")
    assert stages.pods("moved")["moved-0"][0] == before["moved-0"][0], "once is the kubelet's"
    kill(stages, "moved-0", BAD_DEVICE)
    until(lambda: stages.pods("moved").get("moved-0", before["moved-0"])[0] != before["moved-0"][0])
    stages.wait("moved")
    assert stages.pods("moved")["moved-1"] == before["moved-1"]
    assert stages.status("moved")["updateRevision"] == revision
    assert stages.status("moved")["restarts"]["total"] == 2
    [told] = events(installed, "moved", "PodReplaced")
    assert told.startswith("moved-0: deleted after 2 deaths on ")


@pytest.fixture
def manages_nodes(operator, installed):
    """The operator with the right to nodes and the wish to use it."""
    installed.apply(*NODE_RIGHTS)
    operator.kill()
    operator.start(DIFFUSION_OPERATOR_MANAGE_NODES="true", DIFFUSION_OPERATOR_SUSPECT_NODE_S="60")
    yield operator
    operator.kill()
    installed.kubectl("delete", "clusterrole,clusterrolebinding", "nodes-of-the-operator")
    operator.start()


def suspected(installed):
    listed = installed.kubectl("get", "nodes", "-l", "diffusionstage.io/suspect", "-o", "name")
    return listed.split()


@pytest.mark.slow
def test_its_node_is_suspect_for_a_time_and_no_template_changes(manages_nodes, stages, installed):
    stages.make("suspicious", failurePolicy={"replacePodAfterRestarts": 1, "restartBudget": 9})
    generation = installed.get("sts", "suspicious")["metadata"]["generation"]
    kill(stages, "suspicious-0", BAD_DEVICE)
    until(lambda: suspected(installed))
    stages.wait("suspicious")
    assert installed.get("sts", "suspicious")["metadata"]["generation"] == generation
    until(lambda: not suspected(installed), within_s=120)


def test_a_stage_whose_every_replica_used_up_its_budget_is_held_until_the_token_changes(
    operator, stages, installed
):
    """T21: the evidence is kept, and a person says when to go on."""
    policy = {"restartBudget": 1, "onBudgetExhausted": "Hold", "replacePodAfterRestarts": 0}
    stages.make("held", replicas=2, failurePolicy=policy)
    kill(stages, "held-0")
    told = ("WorkerDied", "RestartBudgetExhausted")
    until(lambda: stages.condition("held", "Degraded")["reason"] in told)
    assert installed.get("sts", "held")["spec"]["replicas"] == 2
    kill(stages, "held-1")
    until(lambda: stages.condition("held")["reason"] == "Held")
    until(lambda: not stages.pods("held"))
    assert "spec.restartToken" in stages.condition("held")["message"]
    assert stages.condition("held", "Degraded")["reason"] == "RestartBudgetExhausted"
    assert stages.status("held")["lastFailure"]["reason"] == "WorkerDied"
    operator.restart()
    log = operator.log.stat().st_size
    until(lambda: "applied StatefulSet held" in operator.log.read_text()[log:])
    assert not stages.pods("held"), "a new operator holds it too"
    stages.change("held", restartToken="again")
    stages.wait("held")
    status = stages.status("held")
    assert "hold" not in status
    assert (status["restarts"]["total"], status["restarts"]["budgetRemaining"]) == (2, 1)
    assert len(events(installed, "held", "RestartBudgetExhausted")) >= 1
