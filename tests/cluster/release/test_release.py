"""Charts come and go; stages stay."""

import json
import sys

import pytest
import yaml

from testcluster import CommandError
from tests.cluster.operator.stages import until
from tests.cluster.release.conftest import CHART, CRD, HOME, RELEASE, RELEASED, ROOT, STAGES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
HOOKS = ("sa", "jobs", "clusterroles", "clusterrolebindings")


def generation(box, name):
    return box.cluster.get("sts", name, STAGES)["metadata"]["generation"]


def operator_pod(box):
    [pod] = json.loads(box.kubectl("get", "pods", "-n", HOME, "-o", "json"))["items"]
    return pod["metadata"]["uid"]


def settled(box, name):
    """Whether the operator that runs now has looked at the stage."""
    return until(lambda: f"applied StatefulSet {name}" in box.log())


def test_an_installed_chart_runs_stages_and_its_hook_leaves_nothing(box):
    box.install()
    box.make("first")
    box.wait("first")
    assert [name for name in box.names(*HOOKS) if name.endswith("-crd")] == []
    assert "forbidden" not in box.log()


def test_an_upgrade_from_the_released_chart_and_back_restarts_no_stage(box):
    """Charts are kept, images are not: the operator is today's in all three."""
    box.install(RELEASED, "--set", "operator.workers=2")
    box.make("kept", replicas=2)
    box.wait("kept")
    pods, before = box.pods(), generation(box, "kept")
    operators = [operator_pod(box)]
    box.upgrade(CHART, "--reset-then-reuse-values")
    settled(box, "kept")
    assert "forbidden" not in box.log()
    values = json.loads(box.cluster.helm("get", "values", RELEASE, "-n", HOME, "-o", "json"))
    assert values["operator"] == {"workers": 2}
    operators.append(operator_pod(box))
    box.cluster.helm("rollback", RELEASE, "1", "-n", HOME, "--wait", "--timeout", "90s")
    settled(box, "kept")
    operators.append(operator_pod(box))
    assert len(set(operators)) == 3, "each version of the chart runs an operator of its own"
    assert box.pods() == pods
    assert generation(box, "kept") == before
    box.uninstall()
    assert box.pods() == pods, "stages serve without an operator"


@pytest.mark.slow
def test_after_an_uninstall_a_new_installation_takes_its_stages_over(box):
    box.install()
    box.make("orphan")
    box.wait("orphan")
    pods = box.pods()
    box.uninstall()
    assert CRD in box.kubectl("get", "crd", "-o", "name")
    box.install()
    settled(box, "orphan")
    assert box.pods() == pods


def fields(crd):
    [version] = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def old_crd():
    """As an earlier version might have had it: without settings of the engine."""
    crd = yaml.safe_load((CHART / "crds" / "diffusionstages.yaml").read_text())
    del fields(crd)["engine"]
    return yaml.safe_dump(crd)


def knows_engine(box):
    return "engine" in fields(box.cluster.get("crd", CRD))


@pytest.mark.slow
def test_an_older_crd_is_replaced_by_an_install_and_by_an_upgrade(box):
    for deploy in (box.install, box.upgrade):
        box.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=old_crd())
        assert not knows_engine(box)
        deploy()
        assert knows_engine(box)


@pytest.mark.slow
def test_a_crd_that_is_missing_is_made_by_an_upgrade(box):
    box.install()
    box.kubectl("delete", "crd", CRD)
    box.upgrade()
    assert CRD in box.kubectl("get", "crd", "-o", "name")


def test_the_hooks_program_tells_what_was_different(box):
    def said():
        path = {"PYTHONPATH": str(ROOT / "operator")}
        return box.cluster.run(sys.executable, "-m", "diffusion_operator.crd", env=path).stderr

    assert said() == f"{CRD}: applied: there was none\n"
    assert said() == f"{CRD}: as it should be\n"
    box.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=old_crd())
    assert said() == f"{CRD}: applied: v1alpha1.spec.engine is missing\n"


@pytest.mark.slow
def test_without_the_hook_the_crd_stays_as_it_is(box):
    box.kubectl("apply", "-f", "-", stdin=old_crd())
    box.install(CHART, "--set", "crds.upgrade=false")
    assert not knows_engine(box)


@pytest.mark.slow
def test_an_upgrade_whose_hook_fails_leaves_the_operator_as_it_was(box):
    box.install()
    pod = operator_pod(box)
    broken = ("--set", "image.tag=none", "--set", "image.pullPolicy=Never", "--timeout", "10s")
    with pytest.raises(CommandError, match="pre-upgrade hooks failed"):
        box.upgrade(CHART, *broken)
    [ready] = [
        one["metadata"]["uid"]
        for one in json.loads(box.kubectl("get", "pods", "-n", HOME, "-o", "json"))["items"]
        if one["metadata"]["labels"]["app.kubernetes.io/name"] == RELEASE
    ]
    assert ready == pod
    box.upgrade()
    assert [name for name in box.names(*HOOKS) if name.endswith("-crd")] == []
