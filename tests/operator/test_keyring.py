import pytest

from diffusion_operator.convergence import Convergence
from diffusion_operator.desired.curve import published, secret_name
from diffusion_operator.errors import RefusedError
from diffusion_operator.memory import Memory
from tests.fakes.kubernetes import FakeCluster
from tests.operator.builders import make_stage

CLIENTS = [{"name": "web", "publicKey": "w" * 40}]


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def converge(cluster):
    async def _converge(*, generation=1, rolled_out=False, curve=True):
        cluster.writes.clear()
        spec = {"clients": CLIENTS, "keyGeneration": generation}
        stage = make_stage(**({"curve": spec} if curve else {}))
        if rolled_out:
            roll_out(cluster)
        return await Convergence(cluster, stage, Memory()).run()

    return _converge


def roll_out(cluster):
    """What the StatefulSet's controller would do."""
    workload = cluster.find("StatefulSet", "flux")
    workload["status"] = {
        "observedGeneration": workload["metadata"]["generation"],
        "currentRevision": "r",
        "updateRevision": "r",
        "updatedReplicas": workload["spec"]["replicas"],
    }


def keys(cluster):
    return published(cluster.find("ConfigMap", "flux-curve"))


def secrets(cluster):
    return {name for kind, _, name in cluster.objects if kind == "Secret"}


async def test_the_key_in_use_and_the_next_are_made_once(cluster, converge):
    await converge()
    first = keys(cluster)
    assert set(first) == {1, 2}
    assert secrets(cluster) == {secret_name(make_stage(), key) for key in first.values()}
    await converge()
    assert keys(cluster) == first
    assert [write for write in cluster.writes if write[1] == "Secret"] == []


async def test_a_secret_is_there_before_its_key_is_published(cluster, converge):
    await converge()
    kinds = [kind for verb, kind, _ in cluster.writes]
    assert kinds.index("Secret") < kinds.index("ConfigMap") < kinds.index("StatefulSet")


async def test_a_rotation_uses_the_key_that_clients_know_and_keeps_the_old_until_it_is_out(
    cluster, converge
):
    await converge()
    before = keys(cluster)
    await converge(generation=2, rolled_out=True)
    assert set(keys(cluster)) == {1, 2, 3}
    assert keys(cluster)[2] == before[2]
    await converge(generation=2)
    assert set(keys(cluster)) == {1, 2, 3}, "pods still roll"
    await converge(generation=2, rolled_out=True)
    assert set(keys(cluster)) == {2, 3}
    assert secret_name(make_stage(), before[1]) not in secrets(cluster)


async def test_keys_go_with_the_wish_for_them_but_not_before_the_pods_that_have_them(
    cluster, converge
):
    await converge()
    await converge(rolled_out=True, curve=False)
    assert cluster.find("ConfigMap", "flux-curve") is not None
    assert len(secrets(cluster)) == 2
    await converge(rolled_out=True, curve=False)
    assert cluster.find("ConfigMap", "flux-curve") is None
    assert secrets(cluster) == set()


async def test_without_the_right_to_make_secrets_no_pod_starts_without_a_key(cluster, converge):
    cluster.refusals["Secret"] = RefusedError("secrets is forbidden")
    outcome = await converge()
    assert (outcome.obstacle.reason, outcome.obstacle.is_final) == ("ApplyRefused", True)
    assert cluster.find("StatefulSet", "flux") is None
