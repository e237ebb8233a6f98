"""Two nodes: one that is drained, suspected, or lost."""

import pytest

from testcluster import Cluster
from tests.cluster.operator.conftest import Operator, install, kubeconfig
from tests.cluster.operator.rights import NODE_RIGHTS
from tests.cluster.operator.stages import BAD_DEVICE, Stages, template, until

pytestmark = pytest.mark.cluster
GIVEN_UP_AFTER_S = 2


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A cluster of its own, with an operator that may touch nodes."""
    with Cluster(nodes=2, store="two-nodes") as cluster:
        install(cluster)
        cluster.apply(*NODE_RIGHTS)
        operator = Operator(cluster, kubeconfig(cluster, tmp_path_factory.mktemp("operator")))
        operator.start(DIFFUSION_OPERATOR_MANAGE_NODES="true")
        yield cluster
        operator.kill()


@pytest.fixture
def spread(nodes):
    made = Stages(nodes)
    yield made
    made.remove()


def spread_template():
    """A replica on each node if possible, soon taken off a lost one."""
    made = template()
    made["spec"] |= {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"diffusionstage.io/stage": "wide"}},
            }
        ],
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": GIVEN_UP_AFTER_S,
            }
            for state in ("unreachable", "not-ready")
        ],
    }
    return made


def node_of(nodes, pod):
    return nodes.get("pod", pod).get("spec", {}).get("nodeName")


def test_a_drained_node_is_left_one_replica_at_a_time_and_the_stage_serves(nodes, spread):
    spread.make("wide", replicas=2, podTemplate=spread_template())
    drained = node_of(nodes, "wide-0")
    drain = nodes.popen(
        *("kubectl", "drain", drained, "--ignore-daemonsets", "--delete-emptydir-data"),
        *("--force", "--timeout=100s"),
    )
    fewest = 2
    while drain.poll() is None:
        fewest = min(fewest, spread.status("wide")["readyReplicas"])
    assert (drain.returncode, fewest) == (0, 1)
    spread.wait("wide")
    assert node_of(nodes, "wide-0") == node_of(nodes, "wide-1") != drained
    nodes.kubectl("uncordon", drained)


def test_a_pod_that_died_of_its_device_is_placed_on_another_node(nodes, spread):
    spread.make("ill", failurePolicy={"replacePodAfterRestarts": 1, "restartBudget": 9})
    before = node_of(nodes, "ill-0")
    spread.ask("ill-0", BAD_DEVICE)
    until(lambda: node_of(nodes, "ill-0") not in (None, before), within_s=90)
    spread.wait("ill")
    nodes.kubectl("label", "nodes", "--all", "diffusionstage.io/suspect-")


def test_a_replica_on_a_node_that_is_lost_is_made_elsewhere(nodes, spread):
    """The kubelet stands still; after 40 s its node counts as lost."""
    spread.make("wide", replicas=2, podTemplate=spread_template())
    spread.make("lost", podTemplate=spread_template())
    lost = node_of(nodes, "lost-0")
    kubelet = (
        f"kubelet.*--config={nodes.layout.node(int(lost.rpartition('-')[2])) / 'kubelet.json'}"
    )
    uid = spread.pod("lost-0")["metadata"]["uid"]
    nodes.run("pkill", "-STOP", "-f", kubelet)
    try:
        until(lambda: node_of(nodes, "lost-0") not in (None, lost), within_s=150)
        spread.wait("lost")
        assert spread.pod("lost-0")["metadata"]["uid"] != uid
        assert spread.status("lost")["restarts"]["total"] == 0, "no death of the stage's own"
    finally:
        nodes.run("pkill", "-CONT", "-f", kubelet)
    ready = ("wait", f"node/{lost}", "--for=condition=Ready", "--timeout=60s")
    nodes.kubectl(*ready)
