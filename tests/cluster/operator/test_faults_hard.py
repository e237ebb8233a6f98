"""Faults that last, and faults that meet one stage only."""

import time

import pytest

from tests.cluster.operator.outcome import events, quiet
from tests.cluster.operator.stages import DEAD_WORKER, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
POISONED = [f"poisoned-{n}" for n in range(6)]  # more than the operator has workers
WEIRD = [
    {"spec": []},
    {"spec": {"containers": {}}},
    {"spec": {"containers": [1]}},
    {"spec": {"containers": [{}]}},
    {"spec": {"containers": [{"name": 7}]}},
    {"spec": {"containers": [{"name": "stage", "env": "x"}]}},
    {"spec": {"containers": [{"name": "stage", "env": [{}]}]}},
    {"spec": {"containers": [{"name": "stage", "volumeMounts": {"a": 1}}]}},
    {"spec": {"containers": [{"name": "stage", "resources": []}]}},
    {"spec": {"containers": [{"name": "stage", "securityContext": 1}]}},
    {"spec": {"containers": None, "volumes": None}},
    {"spec": {"volumes": [{}, {}]}},
    {"spec": {"initContainers": "none"}},
    {"spec": {"tolerations": {"a": "b"}}},
    {"spec": {"securityContext": "none"}},
    {"metadata": {"labels": []}},
    {"metadata": {"annotations": {"a": 1}}},
    {"metadata": None},
    {"kind": "Pod"},
]


@pytest.mark.parametrize(
    "fault",
    ["garbage", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("status", "drop"))],
)
def test_poisoned_stages_do_not_delay_another(fault, behind, faults, stages):
    """T54: every read of them fails; another is made and edited at once, and they heal."""
    for name in POISONED:
        options = {"status": 500} if fault == "status" else {}
        faults.add(fault, verb="get", resource="diffusionstages", name=name, **options)
    behind.start()
    stages.make_all({name: {"replicas": 0} for name in POISONED})
    time.sleep(1)
    stages.make("sound", ready=False, replicas=0)
    until(lambda: stages.condition("sound")["reason"] == "ScaledToZero", within_s=10)
    stages.change("sound", suspend=True)
    until(lambda: stages.condition("sound")["reason"] == "Suspended", within_s=5)
    faults.heal()
    until(lambda: {stages.reasons()[name] for name in POISONED} == {"ScaledToZero"}, within_s=20)


def test_a_pod_template_of_any_shape_is_told_and_harms_no_other_stage(behind, stages):
    """T54: what the schema lets through is merged, or told with a reason; no pass breaks."""
    before = behind.log.stat().st_size if behind.log.exists() else 0
    behind.start()
    weird = {f"weird-{number}": {"podTemplate": shape} for number, shape in enumerate(WEIRD)}
    stages.make_all({name: {"replicas": 0} | spec for name, spec in weird.items()})
    stages.make("sound", replicas=0)
    until(lambda: set(stages.reasons().values()) == {"PodTemplateRejected", "ScaledToZero"})
    reasons = stages.reasons()
    assert reasons.pop("sound") == "ScaledToZero"
    assert "PodTemplateRejected" in reasons.values()
    assert "Traceback" not in behind.log.read_text()[before:]


def test_what_no_watch_tells_is_seen_by_the_resync(behind, faults, stages):
    """T50: every watch is silent, and a replica dies, serves again, and is scaled away."""
    behind.start(DIFFUSION_OPERATOR_RESYNC_S=2)
    stages.make("unseen")
    assert faults.watches("stalled") >= 5
    stages.ask("unseen-0", DEAD_WORKER)
    until(lambda: stages.status("unseen")["restarts"]["total"] == 1, within_s=10)
    stages.change("unseen", replicas=0)
    until(lambda: stages.condition("unseen")["reason"] == "ScaledToZero", within_s=10)


@pytest.mark.slow
def test_watches_that_fall_silent_are_replaced(behind, faults, stages, installed, tell):
    """T59: the sockets stay open and nothing comes; far from any resync, an edit is seen."""
    behind.start()
    stages.make("silent")
    pods = stages.pods("silent")
    assert faults.watches("stalled") >= 5
    began = time.monotonic()
    stages.change("silent", updateStrategy={"partition": 2})
    strategy = {"partition": 2}
    until(
        lambda: (
            installed.get("sts", "silent")["spec"]["updateStrategy"]["rollingUpdate"] == strategy
        ),
        within_s=90,
    )
    tell(f"an edit was seen {time.monotonic() - began:.0f} s after the watches fell silent")
    assert stages.pods("silent") == pods


@pytest.mark.slow
@pytest.mark.parametrize("how", ["away", "failing"])
def test_a_minute_without_an_api_server_is_caught_up(how, behind, faults, stages, installed, tell):
    """A replica dies and the spec is edited meanwhile; both show within seconds afterwards."""
    behind.start()
    stages.make("minute", replicas=2)
    pods = stages.pods("minute")
    faults.away() if how == "away" else faults.add("status", status=503)
    faults.watches("cut")
    stages.ask("minute-1", DEAD_WORKER)
    stages.change("minute", podDisruptionBudget={"enabled": False})
    time.sleep(60)
    faults.heal()
    healed = time.monotonic()
    until(lambda: not installed.get("pdb", "minute"), within_s=20)
    until(lambda: stages.status("minute")["restarts"]["total"] == 1, within_s=10)
    tell(f"{how} for a minute: caught up after {time.monotonic() - healed:.1f} s")
    stages.wait("minute")
    quiet(faults)
    assert events(installed, "minute").count("WorkerDied") == 1
    after = stages.pods("minute")
    assert after["minute-0"] == pods["minute-0"]
    assert after["minute-1"][0] == pods["minute-1"][0]
