import pytest

from diffusion_operator.errors import ApiError, RefusedError
from diffusion_operator.metrics import Metrics
from diffusion_operator.reconciler import Reconciler
from diffusion_operator.remedies import Remedies
from diffusion_operator.workqueue import Key
from tests.fakes.kubernetes import FakeCluster
from tests.operator.builders import WORKER_DIED, ended, make_pod

KEY = Key("ns", "flux")
RESYNC_S = 300


@pytest.fixture
def cluster():
    cluster = FakeCluster()
    cluster.put(
        {
            "apiVersion": "diffusionstage.io/v1alpha1",
            "kind": "DiffusionStage",
            "metadata": {"namespace": "ns", "name": "flux"},
            "spec": {"image": "i", "model": {"uri": "/m"}},
        }
    )
    return cluster


def make_reconciler(cluster, suspects=None):
    remedies = Remedies(cluster, suspects)
    return Reconciler(cluster, remedies=remedies, metrics=Metrics(), resync_s=RESYNC_S)


@pytest.fixture
def reconcile(cluster):
    return make_reconciler(cluster)


def serve(cluster, pod):
    """What the controllers of Kubernetes would do."""
    workload = cluster.find("StatefulSet", "flux")
    generation = workload["metadata"]["generation"]
    workload["status"] = {"observedGeneration": generation, "updateRevision": "new"}
    pod["metadata"]["namespace"] = "ns"
    cluster.put(pod)


def condition(cluster, kind="Ready"):
    status = cluster.find("DiffusionStage", "flux")["status"]
    [found] = [one for one in status["conditions"] if one["type"] == kind]
    return found["status"], found["reason"]


async def test_a_stage_becomes_ready_and_then_nothing_is_written(cluster, reconcile):
    assert await reconcile(KEY) == RESYNC_S
    assert condition(cluster) == ("False", "WaitingForReplicas")
    serve(cluster, make_pod(ready=True))
    await reconcile(KEY)
    assert condition(cluster) == ("True", "AllReplicasReady")
    cluster.writes.clear()
    assert await reconcile(KEY) == RESYNC_S
    assert cluster.writes == []


async def test_a_fresh_stage_is_made_without_a_list(cluster, reconcile):
    await reconcile(KEY)
    children = ["PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    expected = sorted(("get", kind) for kind in ["DiffusionStage", *children])
    assert sorted(cluster.reads) == expected
    cluster.reads.clear()
    await reconcile(KEY)
    common = {"Pod", "PodDisruptionBudget", "Service", "StatefulSet"}
    assert {kind for verb, kind in cluster.reads if verb == "list"} == common


@pytest.mark.parametrize(("generation", "reported"), [(1, {"status": {}}), (2, {})])
async def test_what_an_earlier_spec_left_is_looked_for(cluster, generation, reported):
    stage = cluster.find("DiffusionStage", "flux")
    stage["metadata"]["generation"] = generation
    stage |= reported
    owner = {"kind": "DiffusionStage", "uid": stage["metadata"]["uid"], "controller": True}
    about = {"name": "flux", "namespace": "ns", "ownerReferences": [owner]}
    labels = {"diffusionstage.io/stage": "flux"}
    cluster.put({"kind": "NetworkPolicy", "metadata": about | {"labels": labels}})
    await make_reconciler(cluster)(KEY)
    await make_reconciler(cluster)(KEY)  # the roll-out may come first
    assert cluster.find("NetworkPolicy", "flux") is None


async def test_a_death_is_reported_once_also_by_a_new_operator(cluster, reconcile):
    await reconcile(KEY)
    serve(cluster, make_pod(last=ended(71, message=WORKER_DIED)))
    await reconcile(KEY)
    await make_reconciler(cluster)(KEY)
    status = cluster.find("DiffusionStage", "flux")["status"]
    assert status["restarts"]["total"] == 1
    assert len(cluster.events("WorkerDied")) == 1


@pytest.mark.parametrize("metadata", [None, {"deletionTimestamp": "t"}])
async def test_a_stage_that_is_gone_or_going_is_forgotten(cluster, reconcile, metadata):
    if metadata is None:
        cluster.objects.clear()
    else:
        cluster.find("DiffusionStage", "flux")["metadata"] |= metadata
    assert await reconcile(KEY) is None
    assert cluster.writes == []


async def test_a_refused_spec_does_not_hide_whether_replicas_serve(cluster, reconcile):
    await reconcile(KEY)
    serve(cluster, make_pod(ready=True))
    cluster.find("DiffusionStage", "flux")["spec"]["podTemplate"] = {"spec": {"x": 1}}
    cluster.refusals["StatefulSet"] = RefusedError("spec.template.spec.x: unknown")
    assert await reconcile(KEY) == RESYNC_S
    assert condition(cluster) == ("True", "AllReplicasReady")
    assert condition(cluster, "Degraded") == ("True", "PodTemplateRejected")
    serve(cluster, make_pod(state=ended(71, message=WORKER_DIED)))
    await reconcile(KEY)
    assert condition(cluster) == ("False", "WorkerDied")


async def test_a_failure_that_may_pass_is_reported_and_tried_again_soon(cluster, reconcile):
    cluster.refusals["Service"] = ApiError("a webhook did not answer", status=500)
    with pytest.raises(ApiError, match="webhook"):
        await reconcile(KEY)
    assert condition(cluster, "Progressing") == ("True", "ApplyFailed")


async def test_a_spec_of_a_later_version_is_named_and_leaves_what_runs_alone(cluster, reconcile):
    await reconcile(KEY)
    cluster.writes.clear()
    cluster.find("DiffusionStage", "flux")["spec"]["engine"] = {"sideways": True}
    assert await reconcile(KEY) == RESYNC_S
    assert cluster.writes == [("status", "DiffusionStage", "flux")]
    assert condition(cluster) == ("Unknown", "InvalidSpec")
    message = cluster.find("DiffusionStage", "flux")["status"]["conditions"][0]["message"]
    assert message.startswith("spec.engine.sideways: ")
