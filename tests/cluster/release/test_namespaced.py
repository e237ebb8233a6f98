"""An operator for some namespaces, with no rights beyond them."""

import pytest
import yaml

from tests.cluster.operator.stages import manifest, until
from tests.cluster.release.conftest import CHART, STAGES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SCOPED = ("--set", "rbac.scope=namespaced", "--set", f"watchNamespaces={{{STAGES}}}")


def test_it_serves_its_namespace_and_no_other_without_one_refusal(box):
    box.install(CHART, *SCOPED)
    outside = manifest("outside")
    assert outside["metadata"]["namespace"] == "default"
    box.cluster.apply(outside)
    box.make("inside")
    box.wait("inside")
    log = box.log()
    assert "inside" in log
    for word in ("forbidden", "Not enough permissions", "Traceback", "outside"):
        assert word not in log
    assert "status" not in box.cluster.get("dstage", "outside")
    box.kubectl("delete", "dstage", "outside")


@pytest.mark.slow
def test_what_changes_in_its_namespace_is_put_right(box):
    box.install(CHART, *SCOPED)
    box.make("mended", replicas=0)
    box.wait("mended")
    box.kubectl("delete", "sts", "mended", "-n", STAGES)
    until(lambda: box.cluster.get("sts", "mended", STAGES))


def test_nothing_of_the_chart_is_cluster_wide(box):
    box.install(CHART, *SCOPED, "--set", "crds.upgrade=false")
    made = yaml.safe_load_all(
        box.cluster.helm("get", "manifest", "diffusion-operator", "-n", "diffusion-system")
    )
    assert {one["kind"] for one in made} == {"ServiceAccount", "Role", "RoleBinding", "Deployment"}
