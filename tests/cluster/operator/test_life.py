"""From a manifest to pods that serve, and back."""

import json
import time

import pytest

from testcluster import containerd
from tests.cluster.operator.stages import CHILDREN, template, until

pytestmark = pytest.mark.cluster


def table(cluster, name, *options):
    head, row = cluster.kubectl("get", "dstage", name, *options).splitlines()
    starts = [0] + [n for n in range(1, len(head)) if head[n - 1] == " " and head[n] != " "]
    ends = [*starts[1:], None]
    return {head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def versions(cluster, stages, name):
    found = [cluster.get("dstage", name), *stages.children(name).values()]
    return [one["metadata"]["resourceVersion"] for one in found]


def unchanging(cluster, stages, name):
    """The versions, once the controllers of Kubernetes have written their last."""
    before = versions(cluster, stages, name)
    time.sleep(2)
    return versions(cluster, stages, name) == before and before


def test_a_manifest_becomes_replicas_that_serve(operator, stages, installed):
    stages.make("flux", replicas=2)
    status = stages.status("flux")
    assert [one["ready"] for one in status["endpoints"]] == [True, True]
    assert (status["observedGeneration"], status["availableReplicas"]) == (1, 2)
    assert status["address"] == "tcp://flux.default.svc:5555"
    scale = installed.kubectl(
        "get",
        "--raw",
        "/apis/diffusionstage.io/v1alpha1/namespaces/default/diffusionstages/flux/scale",
    )
    assert json.loads(scale)["status"] == {
        "replicas": 2,
        "selector": "diffusionstage.io/stage=flux",
    }


def test_no_column_of_kubectl_get_is_empty(operator, stages, installed):
    stages.make("columns", replicas=0)
    columns = table(installed, "columns", "-o", "wide")
    assert "" not in columns.values(), columns
    assert columns["LAST-FAILURE"] == "<none>"
    assert columns["REASON"] == "ScaledToZero"


def test_pods_meet_the_restricted_standard_of_pod_security(operator, stages, installed):
    """The stand-in borrows folders of the node, which the standard forbids; all else is ours."""
    stages.make("strict", replicas=0)
    pod = installed.get("sts", "strict")["spec"]["template"]
    pod["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "strict", "namespace": "restricted"}
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    installed.apply(namespace | {"metadata": {"name": "restricted", "labels": labels}})
    until(lambda: installed.get("serviceaccount", "default", "restricted"))
    installed.apply(pod)
    installed.kubectl("delete", "namespace", "restricted", "--wait=false")


def test_a_stage_scales_by_its_own_subresource(operator, stages, installed):
    stages.make("scaled")
    installed.kubectl("scale", "dstage", "scaled", "--replicas=2")
    until(lambda: stages.status("scaled")["readyReplicas"] == 2)
    stages.change("scaled", suspend=True)
    until(lambda: stages.condition("scaled")["reason"] == "Suspended")
    until(lambda: stages.status("scaled")["replicas"] == 0)
    stages.change("scaled", suspend=False)
    stages.wait("scaled")


def test_what_others_delete_or_edit_is_put_right(operator, stages, installed):
    stages.make("drift", replicas=0)
    uid = installed.get("svc", "drift")["metadata"]["uid"]
    installed.kubectl("delete", "svc", "drift")
    until(lambda: installed.get("svc", "drift").get("metadata", {"uid": uid})["uid"] != uid)
    installed.kubectl("patch", "svc", "drift", "-p", '{"spec": {"selector": {"a": "b"}}}')
    installed.kubectl("patch", "pdb", "drift", "-p", '{"spec": {"maxUnavailable": 9}}')
    until(lambda: installed.get("pdb", "drift")["spec"]["maxUnavailable"] == 1)
    selector = installed.get("svc", "drift")["spec"]["selector"]
    assert selector["diffusionstage.io/stage"] == "drift"


def test_what_is_no_longer_wanted_is_deleted(operator, stages, installed):
    stages.make("pruned", replicas=0)
    stages.change("pruned", podDisruptionBudget={"enabled": False})
    until(lambda: not installed.get("pdb", "pruned"))


def test_a_settled_stage_causes_no_write_even_by_a_new_operator(operator, stages, installed):
    stages.make("calm")
    before = until(lambda: unchanging(installed, stages, "calm"))
    operator.restart()
    log = operator.log.stat().st_size
    until(lambda: "applied StatefulSet calm" in operator.log.read_text()[log:])
    installed.kubectl("annotate", "svc", "calm", "poke=1")  # one more pass
    installed.kubectl("annotate", "svc", "calm", "poke-")
    time.sleep(2)
    after = versions(installed, stages, "calm")
    assert [after[n] for n in (0, 1, 3, 4)] == [before[n] for n in (0, 1, 3, 4)]


def test_changes_made_while_the_operator_is_away_are_caught_up(operator, stages, installed):
    stages.make("away", replicas=0)
    operator.kill()
    installed.kubectl("delete", "sts", "away")
    stages.make("born", ready=False, replicas=0)
    operator.start()
    until(lambda: installed.get("sts", "away"))
    stages.wait("born")


def test_a_broken_image_is_told_and_a_better_one_heals_it(operator, stages):
    stages.make("image", replicas=2)
    stages.change("image", image="docker.io/testcluster/none:1")
    until(lambda: stages.condition("image", "Degraded")["reason"] == "ImagePull")
    assert stages.condition("image", "Available")["status"] == "True"
    assert "none:1" in stages.condition("image")["message"]
    stages.change("image", image=containerd.PAUSE)
    stages.wait("image")


def test_pods_that_no_node_takes_are_told_of(operator, stages):
    stages.make("greedy", ready=False, accelerator={"count": 64})
    until(lambda: stages.condition("greedy")["reason"] == "InsufficientCapacity")
    assert "nvidia.com/gpu" in stages.condition("greedy")["message"]


def test_a_stage_with_a_device_gets_it(operator, stages, installed):
    stages.make("gpu", accelerator={"count": 1})
    assert "--device=cuda" in installed.get("pod", "gpu-0")["spec"]["containers"][0]["args"]


def test_a_name_of_somebody_else_is_not_taken_over(operator, stages, installed):
    port = {"ports": [{"port": 80}], "selector": {"app": "shop"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": port}
    installed.apply(service)
    stages.make("shop", ready=False)
    until(lambda: stages.condition("shop", "Degraded")["reason"] == "ApplyRefused")
    assert installed.get("svc", "shop")["spec"]["selector"] == {"app": "shop"}
    installed.kubectl("delete", "svc", "shop")


def test_deleting_a_stage_collects_everything_also_without_an_operator(operator, stages, installed):
    stages.make("gone", replicas=0)
    stage = installed.get("dstage", "gone")["metadata"]
    assert "finalizers" not in stage
    assert [key for key in stage["annotations"] if "kopf" in key or "zalando" in key] == []
    operator.kill()
    installed.kubectl("delete", "dstage", "gone", "--timeout=30s")
    for kind, form in CHILDREN:
        until(lambda kind=kind, form=form: not installed.get(kind, form.format("gone")))
    operator.start()


def test_a_stage_made_again_under_its_name_serves(operator, stages, installed):
    stages.make("again")
    installed.kubectl("delete", "dstage", "again", "--cascade=orphan")
    before = stages.pods("again")
    stages.make("again")
    assert stages.pods("again") == before, "the pods of the orphaned StatefulSet go on"


def test_an_operator_that_is_told_to_stop_does_so_at_once(operator):
    started = time.monotonic()
    operator.stop()
    took_s = time.monotonic() - started
    operator.start()
    assert took_s < 4, "Kopf waits five seconds for a task that nobody ended"


def test_a_template_that_cannot_be_merged_is_told_with_its_path(operator, stages):
    stages.make("shape", ready=False, podTemplate=template() | {"metadata": []})
    until(lambda: stages.condition("shape")["reason"] == "PodTemplateRejected")
    assert "podTemplate.metadata" in stages.condition("shape")["message"]
