from datetime import timedelta

from diffusion_operator.conditions import Verdict, conditions
from tests.operator.builders import NOW


def make(verdict, *, old=(), now=NOW):
    [found] = conditions({"Ready": verdict}, generation=3, old={"conditions": list(old)}, now=now)
    return found


def test_a_condition_has_the_shape_that_kubernetes_tools_read():
    assert make(Verdict("True", "AllReplicasReady", "2 of 2")) == {
        "type": "Ready",
        "status": "True",
        "reason": "AllReplicasReady",
        "message": "2 of 2",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }


def test_the_time_of_transition_moves_only_with_the_status():
    first = make(Verdict("False", "A", "a"))
    later = NOW + timedelta(minutes=1)
    same = make(Verdict("False", "B", "b"), old=[first], now=later)
    flipped = make(Verdict("True", "C", "c"), old=[same], now=later)
    assert same["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert flipped["lastTransitionTime"] == "2026-01-01T12:01:00Z"


def test_a_long_message_is_cut():
    assert len(make(Verdict("True", "A", "x" * 9999))["message"]) == 4096
