import pytest

from diffusion_operator.errors import RefusedError
from diffusion_operator.remedies import Remedies, post
from diffusion_operator.status import Pass, compute_status
from tests.fakes.kubernetes import FakeCluster
from tests.operator.builders import NOW, ended, make_pod, make_stage, observed


class Nodes:
    """Stands in for `Suspects`."""

    def __init__(self, *, lost=False):
        self.marked = []
        self._lost = lost

    async def mark(self, node):
        self.marked.append(node)

    async def has_lost(self, node):
        return self._lost


@pytest.fixture
def cluster():
    return FakeCluster()


DEAD = make_pod(last=ended(71), namespace="ns")
LOST = make_pod(
    namespace="ns",
    deletionTimestamp="t",
    status={"conditions": [{"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}]},
)


async def remedy(cluster, pod, nodes=None, **spec):
    cluster.put(pod)
    stage = make_stage(**{"failurePolicy": {"replacePodAfterRestarts": 1}} | spec)
    seen = observed(pod)
    found = Pass(seen, obstacle=None, warning=None, old={}, now=NOW)
    await Remedies(cluster, nodes).apply(stage, seen, compute_status(stage, found), NOW)


async def test_a_pod_that_goes_is_told_of_and_nobodys_node_is_touched_without_the_right(cluster):
    await remedy(cluster, DEAD)
    assert cluster.find("Pod", "flux-0") is None
    [event] = cluster.events("PodReplaced")
    assert event["note"] == "flux-0: deleted after 1 deaths on node-1, to be placed anew"


async def test_with_the_right_its_node_is_suspect(cluster):
    nodes = Nodes()
    await remedy(cluster, DEAD, nodes)
    assert nodes.marked == ["node-1"]


async def test_a_pass_that_was_cut_short_tells_once(cluster):
    await remedy(cluster, DEAD)
    await remedy(cluster, DEAD)
    assert len(cluster.events("PodReplaced")) == 1


async def test_a_pod_of_a_lost_node_is_let_go_so_that_its_name_is_free(cluster):
    await remedy(cluster, LOST, Nodes(lost=True))
    assert ("delete after 0 s", "Pod", "flux-0") in cluster.writes


@pytest.mark.parametrize("nodes", [None, Nodes(lost=False)])
async def test_it_is_not_where_the_node_may_be_alive(cluster, nodes):
    await remedy(cluster, LOST, nodes)
    assert cluster.writes == []


async def test_nor_where_two_pods_might_write_to_its_claim(cluster):
    cache = {"volumeClaimTemplate": {"size": "1Gi"}}
    await remedy(cluster, LOST, Nodes(lost=True), model={"uri": "/m", "cache": cache})
    assert cluster.writes == []


async def test_an_event_that_is_refused_does_no_harm(cluster):
    cluster.refusals["Event"] = RefusedError("the namespace is being terminated")
    await post(cluster, {"kind": "Event", "metadata": {"namespace": "ns", "name": "e"}})
    assert cluster.events() == []
