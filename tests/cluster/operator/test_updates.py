"""What happens to pods when a spec changes, a pod fails, or a namespace goes."""

import json

import pytest

from tests.cluster.operator.stages import manifest, template, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
NOWHERE = {"spec": {"schedulerName": "nobody"}}  # pods are made and never run


def pods(cluster, name):
    selector = f"diffusionstage.io/stage={name}"
    return json.loads(cluster.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]


def is_ready(pod):
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def revisions(found):
    return {pod["metadata"]["labels"]["controller-revision-hash"] for pod in found}


def test_a_rolling_update_takes_one_replica_at_a_time_and_never_one_more(
    operator, stages, installed
):
    """T07, T08, T09, T10, T14: seen from outside, from the edit until all are of the new spec."""
    stages.make("rolled", replicas=3)
    [old] = revisions(pods(installed, "rolled"))
    stages.change("rolled", env=[{"name": "VERSION", "value": "2"}])
    while True:
        ready_before = stages.condition("rolled")
        found = pods(installed, "rolled")
        assert len(found) <= 3, "no surge: a node may have room for no more"
        assert sum(map(is_ready, found)) >= 2
        if old not in revisions(found) and sum(map(is_ready, found)) == 3:
            break
        assert ready_before["status"] == "False" or len(revisions(found)) == 1
    stages.wait("rolled")
    assert stages.status("rolled")["updatedReplicas"] == 3


def test_a_crash_loop_ends_with_a_better_spec(operator, stages):
    """T16, T17, T42: the broken pods are replaced by themselves, though none was ever ready."""
    stages.make("mended", ready=False, replicas=2, model={"uri": "/models/none"})
    until(lambda: stages.condition("mended", "Degraded")["reason"] == "ModelUnavailable")
    until(lambda: "kubelet tries again" in stages.condition("mended")["message"])
    stages.change("mended", model={"uri": "/models/m"})
    stages.wait("mended")


def test_a_replica_that_starts_slowly_is_left_to_start(operator, stages, installed):
    """T39, T43: after an edit the only pod is replaced once, and then nobody touches it."""
    stages.make("only")
    slow = template(command=["sh", "-c", 'sleep 6; exec "$@"', "sh", *COMMAND])
    stages.change("only", podTemplate=slow)
    new = until(lambda: [pod for pod in pods(installed, "only") if not is_ready(pod)])
    stages.wait("only")
    after = pods(installed, "only")
    replaced = {pod["metadata"]["uid"] for pod in new if "deletionTimestamp" not in pod["metadata"]}
    assert len(after) == 1
    assert not replaced or {after[0]["metadata"]["uid"]} == replaced
    assert after[0]["status"]["containerStatuses"][0]["restartCount"] == 0


COMMAND = template()["spec"]["containers"][0]["command"]


def uids(cluster, name):
    return {pod["metadata"]["uid"] for pod in pods(cluster, name)}


def test_a_drain_may_evict_the_only_replica_of_a_stage(operator, stages, installed):
    """T26: a budget that never lets anybody go would hang every drain."""
    stages.make("evicted")
    before = uids(installed, "evicted")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "evicted-0", "namespace": "default"},
    }
    path = "/api/v1/namespaces/default/pods/evicted-0/eviction"
    until(lambda: installed.get("pdb", "evicted")["status"]["disruptionsAllowed"] == 1)
    installed.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    until(lambda: uids(installed, "evicted") not in (before, set()))
    stages.wait("evicted")
    assert stages.status("evicted")["restarts"]["total"] == 0


def test_a_pod_that_a_node_does_not_admit_is_replaced_and_gone(operator, stages, installed):
    """T34: as after a restart of the cluster, when the devices are not there yet."""
    stages.make("refused", ready=False, podTemplate=NOWHERE)
    before = until(lambda: uids(installed, "refused"))
    failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(failed))
    installed.kubectl("patch", "pod", "refused-0", *patch)
    until(lambda: uids(installed, "refused") not in (before, set()))
    assert [pod["status"]["phase"] for pod in pods(installed, "refused")] == ["Pending"]


def test_only_the_stage_that_is_edited_rolls(operator, stages, installed):
    """T48: a neighbour's pods stay."""
    stages.make("edited")
    stages.make("neighbour")
    before = stages.pods("neighbour")
    stages.change("edited", env=[{"name": "VERSION", "value": "2"}])
    until(lambda: stages.condition("edited")["status"] == "False")
    stages.wait("edited")
    assert stages.pods("neighbour") == before


def test_a_namespace_goes_with_its_stages_though_no_operator_runs(operator, installed):
    """T24, T25: no finalizer waits for an operator that was uninstalled first."""
    kind = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}}
    stage = manifest("left", replicas=0)
    stage["metadata"]["namespace"] = "leaving"
    installed.apply(kind, stage)
    until(lambda: installed.get("sts", "left", "leaving"))
    operator.kill()
    installed.kubectl("delete", "namespace", "leaving", "--timeout=60s")
    operator.start()
