"""Whatever goes first, chart, stages, CRD or namespace: nothing hangs."""

import itertools

import pytest

from tests.cluster.operator.stages import until
from tests.cluster.release.conftest import CRD, HOME, STAGES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
WITHIN_S = 60
REMOVALS = {
    "chart": lambda box: box.uninstall(),
    "stages": lambda box: box.kubectl("delete", "dstage", "--all", "-n", STAGES, "--wait"),
    "crd": lambda box: box.kubectl("delete", "crd", CRD, "--wait", timeout_s=WITHIN_S),
    "namespace": lambda box: box.kubectl("delete", "ns", STAGES, "--wait", timeout_s=WITHIN_S),
    "operator's namespace": lambda box: box.kubectl(
        "delete", "ns", HOME, "--wait", timeout_s=WITHIN_S
    ),
}
ALWAYS = [("chart", "namespace", "crd"), ("crd", "chart", "namespace")]
ORDERS = [
    *itertools.permutations(("chart", "crd", "namespace")),
    # Without its CRD, or its namespace, there is no stage to delete.
    *(
        order
        for order in itertools.permutations(("chart", "stages", "crd", "namespace"))
        if order.index("stages") < min(order.index("crd"), order.index("namespace"))
    ),
]


@pytest.mark.parametrize(
    "order",
    [pytest.param(each, marks=[pytest.mark.slow] * (each not in ALWAYS)) for each in ORDERS],
    ids=" then ".join,
)
def test_removal_ends_in_this_order(box, order):
    box.install()
    box.make("gone")
    box.wait("gone")
    assert "finalizers" not in box.cluster.get("dstage", "gone", STAGES)["metadata"]
    for name in order:
        REMOVALS[name](box)
    until(lambda: [one for one in box.names("sts", "pdb", "svc", "pods") if "/gone" in one] == [])


@pytest.mark.slow
def test_the_operators_own_namespace_can_go_first(box):
    box.install()
    box.make("gone")
    box.wait("gone")
    REMOVALS["operator's namespace"](box)
    box.kubectl("delete", "dstage", "--all", "-n", STAGES, "--timeout=60s")
    REMOVALS["namespace"](box)
    REMOVALS["crd"](box)
