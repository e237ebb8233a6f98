"""How replicas are replaced by those of a new spec."""

import json
import time

import pytest

from tests.cluster.operator.stages import until

pytestmark = pytest.mark.cluster


def uids(stages, name):
    return {pod: uid for pod, (uid, _) in stages.pods(name).items()}


def env(value):
    return [{"name": "ROUND", "value": value}]


def test_replicas_are_replaced_one_at_a_time_by_readiness(operator, stages, installed):
    """T10, T08, T07: never one more than asked for, never two away."""
    stages.make("rolled", replicas=3, env=env("1"))
    before = uids(stages, "rolled")
    stages.change("rolled", env=env("2"))
    least, most = 3, 0
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        status = stages.status("rolled")
        least, most = min(least, status["readyReplicas"]), max(most, status["replicas"])
        ready = stages.condition("rolled")
        if ready["status"] == "True" and not set(before.values()) & set(
            uids(stages, "rolled").values()
        ):
            break
    assert (least, most) == (2, 3)
    assert stages.condition("rolled", "Progressing")["reason"] == "RolloutComplete"


def test_a_rollout_that_is_stuck_says_so_and_a_better_spec_goes_through_it(
    operator, stages, installed
):
    """T16, T17, T42: nobody deletes a pod by hand."""
    stages.make("stuck", replicas=2)
    before = uids(stages, "stuck")
    stages.change("stuck", model={"uri": "/models/none"})
    until(lambda: stages.condition("stuck", "Progressing")["reason"] == "RolloutStuck")
    assert "no such folder" in stages.condition("stuck", "Progressing")["message"]
    assert stages.condition("stuck")["reason"] == "ModelUnavailable"
    assert stages.condition("stuck", "Available")["status"] == "True"
    assert uids(stages, "stuck")["stuck-0"] == before["stuck-0"], "the other serves on"
    stages.change("stuck", model={"uri": "/models/better"})
    stages.wait("stuck")
    assert stages.condition("stuck", "Degraded")["status"] == "False"


def test_a_partition_keeps_the_replicas_below_it_as_they_are(operator, stages, installed):
    stages.make("parted", replicas=2, env=env("1"), updateStrategy={"partition": 1})
    before = uids(stages, "parted")
    stages.change("parted", env=env("2"))
    until(lambda: uids(stages, "parted").get("parted-1", before["parted-1"]) != before["parted-1"])
    stages.wait("parted")
    assert uids(stages, "parted")["parted-0"] == before["parted-0"]


def test_on_delete_waits_for_a_person(operator, stages, installed):
    stages.make("manual", env=env("1"), updateStrategy={"type": "OnDelete"})
    before = uids(stages, "manual")
    stages.change("manual", env=env("2"))
    until(lambda: stages.status("manual")["updatedReplicas"] == 0)
    assert uids(stages, "manual") == before
    installed.kubectl("delete", "pod", "manual-0")
    until(lambda: stages.status("manual")["updatedReplicas"] == 1)


def test_a_new_token_replaces_all_replicas_and_the_same_one_none(operator, stages, installed):
    stages.make("restarted", replicas=2)
    before = uids(stages, "restarted")
    stages.change("restarted", restartToken="a")
    until(lambda: not set(before.values()) & set(uids(stages, "restarted").values()))
    stages.wait("restarted")
    after = uids(stages, "restarted")
    stages.change("restarted", restartToken="a")
    stages.wait("restarted")
    assert uids(stages, "restarted") == after


def test_a_suspended_stage_runs_no_pod_keeps_its_services_and_comes_back(
    operator, stages, installed
):
    stages.make("paused", replicas=2)
    stages.change("paused", suspend=True)
    until(lambda: stages.condition("paused", "Suspended")["status"] == "True")
    assert stages.pods("paused") == {}
    assert stages.condition("paused")["reason"] == "Suspended"
    assert set(stages.children("paused")), "nothing but the pods went"
    stages.change("paused", suspend=False)
    stages.wait("paused")
    assert stages.condition("paused", "Suspended")["reason"] == "NotSuspended"


def evict(installed, pod):
    """What `kubectl drain` asks for; returns the API server's refusal, if any."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "default"},
    }
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    asked = ("kubectl", "create", "--raw", path, "-f", "-")
    return installed.run(*asked, stdin=json.dumps(eviction), check=False).stderr


def test_a_node_that_is_drained_takes_one_replica_at_a_time(operator, stages, installed):
    """T26: the budget lets the only spare one go, and the next when that is back."""
    stages.make("drained", replicas=2)
    until(lambda: installed.get("pdb", "drained")["status"].get("disruptionsAllowed") == 1)
    assert evict(installed, "drained-0") == ""
    assert "disruption budget" in evict(installed, "drained-1")
    stages.wait("drained")
    until(lambda: evict(installed, "drained-1") == "")


def test_a_stage_of_one_replica_does_not_hold_a_drain_up(operator, stages, installed):
    """T26."""
    stages.make("alone")
    until(lambda: installed.get("pdb", "alone")["status"].get("disruptionsAllowed") == 1)
    assert evict(installed, "alone-0") == ""
