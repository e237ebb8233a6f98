"""What is settled stays as it is: through operators, passes, and others' wishes."""

import json

import pytest

from tests.cluster.operator.conftest import ROOT, Operator, kubeconfig
from tests.cluster.operator.outcome import events, quiet
from tests.cluster.operator.stages import CHILDREN, DEAD_WORKER, template, until

pytestmark = pytest.mark.cluster
GROUP = "diffusionstage.io"
STAGES = f"/apis/{GROUP}/v1alpha1/namespaces/default/diffusionstages"
STARTS = 3
PASSES = 100
KEPT = {"volumeClaimTemplate": {"size": "1Gi"}}
RICH = {
    "replicas": 0,
    "env": [{"name": name, "value": "1"} for name in ("Z", "X", "C", "A", "B")],
    "model": {"uri": "/m", "cache": KEPT},
    "podTemplate": template(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}}),
}


def versions(cluster, stages, name):
    found = {("dstage", name): cluster.get("dstage", name), **stages.children(name)}
    return {key: one["metadata"]["resourceVersion"] for key, one in found.items()}


def poke(faults, name, times):
    """Passes without a cause: an annotation of the stage, again and again."""
    changes = [{"metadata": {"annotations": {"poke": str(n)}}} for n in range(times)]
    faults.send(*(("PATCH", f"{STAGES}/{name}", change) for change in changes), at_once=1)


def passes(requests, name):
    return sum((one.verb, one.name) == ("get", name) and one.group == GROUP for one in requests)


@pytest.mark.slow
def test_new_operators_and_new_hash_seeds_change_nothing(behind, faults, stages, installed):
    """T44, T45: several starts, each with other orders of sets and with claims in the workload."""
    behind.start(PYTHONHASHSEED=0)
    stages.make("calm", **RICH)
    quiet(faults)
    before = versions(installed, stages, "calm")
    for seed in range(1, STARTS + 1):
        behind.kill()
        said = behind.log.stat().st_size
        behind.start(PYTHONHASHSEED=seed)
        until(lambda said=said: "applied StatefulSet calm" in behind.log.read_text()[said:])
        quiet(faults)
    assert versions(installed, stages, "calm") == before


def test_a_hundred_passes_write_nothing(behind, faults, stages, installed):
    """T44: no pass of a settled stage writes, whatever woke it."""
    behind.start()
    stages.make("often", **RICH)
    quiet(faults)
    before = versions(installed, stages, "often")
    start = faults.mark()
    while passes(faults.requests(start), "often") < PASSES:
        poke(faults, "often", 20)
    assert faults.writes_within(1) == []
    assert [one for one in faults.requests(start) if one.is_write] == []
    after = versions(installed, stages, "often")
    assert {key for key in before if before[key] != after[key]} == {("dstage", "often")}


def test_what_an_autoscaler_asks_for_is_kept(behind, faults, stages, installed):
    """T56: the stage's own scale is the target; passes keep the value, and the selector is told."""
    behind.start()
    stages.make("scaling", ready=False, podTemplate=nowhere())
    scale = f"{STAGES}/scaling/scale"
    faults.send(("PATCH", scale, {"spec": {"replicas": 3}}))
    until(lambda: replicas(installed, "scaling") == 3)
    until(lambda: stages.status("scaling")["replicas"] == 3)
    poke(faults, "scaling", 10)
    quiet(faults)
    assert replicas(installed, "scaling") == 3
    told = json.loads(installed.kubectl("get", "--raw", scale))
    assert told["status"] == {"replicas": 3, "selector": "diffusionstage.io/stage=scaling"}


def replicas(cluster, name):
    return cluster.get("sts", name).get("spec", {}).get("replicas")


def nowhere():
    """Pods that are made and never run."""
    return {"spec": {"schedulerName": "nobody"}}


def test_an_answer_that_is_out_of_date_makes_nothing_twice(behind, faults, stages, installed):
    """T18: LISTs, then GETs too, tell for ever that there is nothing yet; names are the same."""
    for resource in ("statefulsets", "services", "poddisruptionbudgets"):
        faults.add("replay", verb="list", resource=resource, namespace="default")
    behind.start()
    stages.make("stale", ready=False, podTemplate=nowhere())
    until(lambda: all(stages.children("stale").values()))
    quiet(faults)
    before = stages.children("stale")
    for resource in ("statefulsets", "services", "poddisruptionbudgets"):
        faults.add("status", status=404, verb="get", resource=resource, namespace="default")
    poke(faults, "stale", 10)
    quiet(faults)
    after = stages.children("stale")
    assert identities(after) == identities(before)
    listed = installed.kubectl(
        *("get", "sts,svc,pdb,pods", "-l", "diffusionstage.io/stage=stale", "-o", "name")
    )
    assert len(listed.split()) == len(CHILDREN) + 1


def identities(children):
    found = {key: one["metadata"] for key, one in children.items()}
    return {key: (one["uid"], one.get("generation")) for key, one in found.items()}


def test_two_operators_by_mistake_do_not_fight(behind, faults, stages, installed, second):
    """Both do the same, so that one of them finds nothing to do; nothing is there twice."""
    behind.start()
    second.start(PYTHONHASHSEED=1)
    stages.make("shared", ready=False, podTemplate=nowhere(), replicas=2)
    until(lambda: stages.status("shared").get("replicas") == 2)
    quiet(faults)
    installed.kubectl("delete", "svc", "shared")
    stages.change("shared", updateStrategy={"partition": 1}, podDisruptionBudget={"enabled": False})
    until(lambda: installed.get("svc", "shared") and not installed.get("pdb", "shared"))
    quiet(faults)
    listed = installed.kubectl(
        *("get", "sts,svc,pdb,pods", "-l", "diffusionstage.io/stage=shared", "-o", "name")
    )
    assert len(listed.split()) == 3 + 2
    assert installed.get("sts", "shared")["spec"]["updateStrategy"]["rollingUpdate"] == {
        "partition": 1
    }


@pytest.fixture
def second(installed, faults, tmp_path):
    operator = Operator(installed, kubeconfig(installed, tmp_path, faults.server))
    yield operator
    operator.end()


@pytest.mark.parametrize("skew_s", [3 * 3600, pytest.param(-3 * 3600, marks=pytest.mark.slow)])
def test_a_clock_that_is_wrong_by_hours_counts_a_death_once(
    behind, faults, stages, installed, skew_s
):
    """And nothing flaps, neither then nor with the clock that is right again."""
    behind.start(f"{ROOT}/operator:{ROOT}", module="tests.cluster.operator.skewed", SKEW_S=skew_s)
    stages.make("skewed")
    stages.ask("skewed-0", DEAD_WORKER)
    until(lambda: stages.status("skewed")["restarts"]["total"] == 1)
    stages.wait("skewed")
    quiet(faults)
    behind.kill()
    behind.start()
    quiet(faults)
    poke(faults, "skewed", 3)
    quiet(faults)
    assert stages.status("skewed")["restarts"]["total"] == 1
    assert events(installed, "skewed").count("WorkerDied") == 1
