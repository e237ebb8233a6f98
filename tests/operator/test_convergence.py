import pytest

from diffusion_operator.convergence import Convergence
from diffusion_operator.errors import ApiError, RefusedError
from diffusion_operator.memory import Memory
from tests.fakes.kubernetes import FakeCluster
from tests.operator.builders import make_stage

CHILDREN = {
    ("PodDisruptionBudget", "flux"),
    ("Service", "flux"),
    ("Service", "flux-pods"),
    ("StatefulSet", "flux"),
}


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def converge(cluster):
    memory = Memory()

    async def _converge(*, fresh=False, **spec):
        cluster.writes.clear()
        return await Convergence(cluster, make_stage(**spec), Memory() if fresh else memory).run()

    return _converge


def service(name="flux", **metadata):
    found = {"name": name, "namespace": "ns", "labels": {"diffusionstage.io/stage": "flux"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": found | metadata, "spec": {}}


def owned_by(kind, name, uid):
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]}


async def test_everything_is_made_and_then_nothing_is_written(cluster, converge):
    outcome = await converge()
    assert {(kind, name) for _, kind, name in cluster.writes} == CHILDREN
    assert outcome.workload["kind"] == "StatefulSet"
    await converge()
    assert cluster.writes == []


async def test_a_new_process_applies_once_what_is_there(cluster, converge):
    await converge()
    await converge(fresh=True)
    assert len(cluster.writes) == len(CHILDREN)


async def test_what_others_edited_is_put_right_and_nothing_else_is_written(cluster, converge):
    await converge()
    cluster.find("Service", "flux")["spec"]["selector"] = {"a": "b"}
    await converge()
    assert cluster.writes == [("apply", "Service", "flux")]


async def test_what_is_no_longer_wanted_is_deleted(cluster, converge):
    await converge()
    await converge(podDisruptionBudget={"enabled": False})
    assert cluster.writes == [("delete", "PodDisruptionBudget", "flux")]


async def test_a_label_alone_is_no_reason_to_delete(cluster, converge):
    cluster.put(service("bystander"))
    cluster.put(service("stranger", **owned_by("DiffusionStage", "flux", "another-uid")))
    await converge()
    assert cluster.find("Service", "bystander")
    assert cluster.find("Service", "stranger")


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {}},
        {"labels": {"diffusionstage.io/stage": "other"}},
        owned_by("DiffusionStage", "other", "other-uid"),
        {"labels": {}} | owned_by("Deployment", "flux", "d"),
    ],
)
async def test_an_object_of_somebody_else_is_not_taken_over(cluster, converge, metadata):
    cluster.put(service(**metadata))
    outcome = await converge()
    assert outcome.obstacle.reason == "ApplyRefused"
    assert "Service flux exists and " in outcome.obstacle.message
    assert cluster.find("Service", "flux")["spec"] == {}
    assert cluster.find("StatefulSet", "flux"), "the others are made all the same"


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        owned_by("DiffusionStage", "flux", "uid-of-an-earlier-stage"),
        {"labels": {}} | owned_by("DiffusionStage", "flux", "stage-uid"),
    ],
)
async def test_orphans_and_what_an_earlier_stage_left_are_taken_over(cluster, converge, metadata):
    cluster.put(service(**metadata))
    assert (await converge()).obstacle is None
    assert cluster.find("Service", "flux")["metadata"]["labels"]["diffusionstage.io/stage"]


async def test_what_is_being_deleted_is_left_until_it_is_gone(cluster, converge):
    cluster.put(service(deletionTimestamp="t"))
    assert (await converge()).obstacle is None
    assert ("apply", "Service", "flux") not in cluster.writes


async def test_a_refused_template_does_not_stop_the_others(cluster, converge):
    refusal = RefusedError(".spec.template.spec.hostnetwork: field not declared in schema")
    cluster.refusals["StatefulSet"] = refusal
    outcome = await converge()
    assert (outcome.obstacle.reason, outcome.obstacle.is_final) == ("PodTemplateRejected", True)
    assert outcome.workload is None
    assert cluster.find("Service", "flux-pods")


async def test_a_template_that_cannot_be_merged_leaves_what_runs_alone(cluster, converge):
    await converge()
    outcome = await converge(podTemplate={"spec": []})
    assert outcome.obstacle.reason == "PodTemplateRejected"
    assert outcome.workload is not None
    assert cluster.writes == []


async def test_a_failure_that_may_pass_is_not_final(cluster, converge):
    cluster.refusals["Service"] = ApiError("a webhook did not answer", status=500)
    outcome = await converge()
    assert (outcome.obstacle.reason, outcome.obstacle.is_final) == ("ApplyFailed", False)


async def test_without_an_api_server_there_is_no_outcome(cluster, converge):
    cluster.refusals["Service"] = ApiError("no answer", status=0)
    with pytest.raises(ApiError):
        await converge()


IMAGE = {"uri": "oci://example.org/flux:1"}


async def test_an_image_volume_that_the_server_would_make_an_empty_folder_is_not_applied(
    cluster, converge
):
    def drops(manifest):
        for volume in manifest["spec"]["template"]["spec"]["volumes"]:
            if volume.pop("image", None):
                volume["emptyDir"] = {}
        return manifest

    cluster.drops = drops
    outcome = await converge(model=IMAGE)
    assert (outcome.obstacle.reason, outcome.obstacle.is_final) == ("ImageVolumesUnsupported", True)
    assert cluster.find("StatefulSet", "flux") is None


async def test_one_that_the_server_keeps_is(cluster, converge):
    assert (await converge(model=IMAGE)).obstacle is None
    assert cluster.find("StatefulSet", "flux") is not None


async def test_what_pods_of_the_former_spec_name_stays_until_all_are_of_the_present_one(
    cluster, converge
):
    """The StatefulSet may make one of them once more, and could not without its account."""
    await converge(serviceAccount={"create": True})
    await converge()
    assert cluster.find("ServiceAccount", "flux") is not None
    workload = cluster.find("StatefulSet", "flux")
    workload["status"] = {
        "observedGeneration": workload["metadata"]["generation"],
        "currentRevision": "new",
        "updateRevision": "new",
        "updatedReplicas": 1,
    }
    await converge()
    assert cluster.find("ServiceAccount", "flux") is None


async def test_it_stays_also_where_the_present_spec_is_refused(cluster, converge):
    await converge(serviceAccount={"create": True})
    cluster.refusals["StatefulSet"] = RefusedError("spec.template.spec.x: unknown")
    await converge()
    assert cluster.find("ServiceAccount", "flux") is not None
