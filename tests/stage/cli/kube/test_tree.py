"""A stage with all that belongs to it."""

from diffusion_stage.cli.kube.tree import EVENTS, tree
from tests.stage.cli.kube.builders import condition, make_event, make_pod, make_stage

WAITING = condition("Ready", "False", "WaitingForReplicas", "1 of 2 replicas ready")
READY = condition("Ready", "True", "AllReplicasReady", "2 of 2 replicas ready")


def made(stage, pods=(), events=(), **given):
    return tree(stage, pods, events, answers={}, **given)


def test_a_stage_that_serves_needs_nothing():
    found = made(make_stage(), [make_pod(0), make_pod(1)])
    assert (found.is_ready, found.reason, found.next_step) == (True, "AllReplicasReady", "")
    assert (found.ready, found.wanted, found.budget_remaining) == (2, 2, 5)
    assert (found.warning, found.notes) == ("", ())


def test_the_reason_says_the_next_step():
    found = made(make_stage(condition("Ready", "False", "CrashLoop", "flux-0: …")))
    assert not found.is_ready
    assert found.next_step.endswith("kubectl dstage logs flux --previous")


def test_a_reason_that_this_version_does_not_know_leads_to_describe():
    assert made(make_stage(condition("Ready", "False", "New"))).next_step.endswith("dstage flux")


def test_a_stage_that_serves_and_is_degraded_tells_why_and_what_to_do():
    degraded = condition("Degraded", "True", "RestartBudgetExhausted", "5 deaths within 3600 s")
    found = made(make_stage(READY, degraded))
    assert found.is_ready
    assert found.warning == "RestartBudgetExhausted: 5 deaths within 3600 s"
    assert found.next_step.startswith("read the Events")


def test_what_ready_says_is_not_said_again_by_degraded():
    failing = (
        condition(kind, value, "Hang") for kind, value in (("Ready", "False"), ("Degraded", "True"))
    )
    assert made(make_stage(*failing)).warning == ""


def test_a_stage_without_a_status_points_at_the_operator():
    stage = make_stage().model_copy(update={"status": type(make_stage().status)()})
    found = made(stage)
    assert not found.is_ready
    assert "diffusion-operator" in found.next_step
    assert [one.state for one in found.replicas] == ["Pending", "Pending"]


def test_a_suspended_stage_wants_no_replicas():
    found = made(
        make_stage(condition("Ready", "False", "Suspended"), spec={"suspend": True}, endpoints=[])
    )
    assert (found.wanted, found.replicas) == (0, ())
    assert found.next_step == "kubectl dstage resume flux"


def test_a_status_of_an_earlier_spec_is_told():
    found = made(make_stage(observedGeneration=2))
    assert found.notes == ("the operator has not seen the present spec: 3, it knows 2",)


def test_pods_of_others_are_left_out():
    foreign = [
        make_pod(5, ownerReferences=[{"kind": "StatefulSet", "name": "other", "controller": True}]),
        make_pod(6, ownerReferences=[]),
        make_pod(7, namespace="elsewhere"),
    ]
    found = made(make_stage(endpoints=[]), foreign)
    assert [one.name for one in found.replicas] == ["flux-0", "flux-1"]


def test_the_newest_events_of_this_very_stage_come_last():
    events = [
        make_event("Old", "note", at=f"2026-01-01T11:{minute:02}:00Z") for minute in range(30)
    ]
    events.append(make_event("Former", "of a stage of the same name", uid="another"))
    found = made(make_stage(), events=reversed(events)).events
    assert len(found) == EVENTS
    assert [one.time.minute for one in found] == list(range(20, 30))


def test_what_could_not_be_read_is_noted():
    assert made(make_stage(), notes=["pods cannot be read"]).notes == ("pods cannot be read",)
