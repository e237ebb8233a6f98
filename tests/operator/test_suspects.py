import pytest

from diffusion_operator import suspects
from diffusion_operator.api import SUSPECT_LABEL
from diffusion_operator.suspects import Suspects
from tests.fakes.kubernetes import FakeCluster


@pytest.fixture
def clock(monkeypatch):
    now = {"s": 1000}
    monkeypatch.setattr(suspects, "_now_s", lambda: now["s"])
    return now


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def marker(cluster, clock):
    return Suspects(cluster, lifetime_s=60)


def node(ready):
    return {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def label(cluster):
    return cluster.find("Node", "n", None)["metadata"]["labels"].get(SUSPECT_LABEL)


async def test_a_node_is_suspect_for_its_time_and_then_is_not(cluster, marker, clock):
    await marker.mark("n")
    clock["s"] += 59
    await marker.release()
    assert label(cluster) == "1000"
    clock["s"] += 1
    await marker.release()
    assert label(cluster) is None


async def test_marked_again_it_is_suspect_for_the_whole_time_again(cluster, marker, clock):
    await marker.mark("n")
    clock["s"] += 59
    await marker.mark("n")
    clock["s"] += 59
    await marker.release()
    assert label(cluster) == "1059"


async def test_a_label_that_a_person_put_there_stays(cluster, marker, clock):
    cluster.put({"kind": "Node", "metadata": {"name": "n", "labels": {SUSPECT_LABEL: "by-hand"}}})
    await marker.release()
    assert label(cluster) == "by-hand"


@pytest.mark.parametrize(("ready", "is_lost"), [("True", False), ("Unknown", True)])
async def test_a_node_that_is_not_heard_of_is_lost(cluster, marker, ready, is_lost):
    cluster.put(node(ready))
    assert await marker.has_lost("n") is is_lost


async def test_a_node_that_is_gone_is_lost(marker):
    assert await marker.has_lost("n")
