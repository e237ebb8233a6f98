import pytest

from diffusion_operator.budget import count
from diffusion_operator.failures import failures
from diffusion_operator.remediation import next_hold, replacements
from tests.operator.builders import NOW, ended, make_pod, make_stage, observed


def counted(stage, *pods):
    seen = failures(observed(*pods))
    return count(seen, {}, policy=stage.spec.failure_policy, now=NOW)


def deaths(number, *, code=71, ordinal=0, **metadata):
    """The deaths of one pod as passes see them, one after the other."""
    return [
        make_pod(
            ordinal,
            last=ended(code, container=f"{ordinal}-{n}", at=f"2026-01-01T11:30:{n:02}Z"),
            **metadata,
        )
        for n in range(number)
    ]


def replaced(pods, **policy):
    stage = make_stage(failurePolicy=policy)
    found = replacements(observed(pods[-1]), counted(stage, *pods), stage.spec.failure_policy)
    return [(one.replica.uid, one.deaths) for one in found]


def test_a_pod_that_died_often_where_it_is_goes():
    assert replaced(deaths(2)) == []
    assert replaced(deaths(3)) == [("pod-uid-0", 3)]
    assert replaced(deaths(2), replacePodAfterRestarts=2) == [("pod-uid-0", 2)]


def test_never_is_never():
    assert replaced(deaths(9), replacePodAfterRestarts=0) == []


def test_deaths_of_an_earlier_placement_are_not_those_of_this_one():
    assert replaced([*deaths(2, uid="earlier"), *deaths(1)]) == []


@pytest.mark.parametrize("code", [64, 66, 70, 72, 75])
def test_what_no_other_node_would_spare_moves_no_pod(code):
    assert replaced(deaths(9, code=code)) == []


def test_a_pod_that_goes_already_is_left_alone():
    pods = deaths(3)
    pods[-1]["metadata"]["deletionTimestamp"] = "t"
    stage = make_stage()
    seen = counted(stage, *deaths(3))
    assert replacements(observed(pods[-1]), seen, stage.spec.failure_policy) == []


def hold(*pods, held=False, old=None, **spec):
    policy = {"onBudgetExhausted": "Hold", "restartBudget": 2}
    stage = make_stage(held=held, **{"replicas": 2, "failurePolicy": policy} | spec)
    return next_hold(stage, counted(stage, *pods), old or {}, NOW)


def test_a_stage_is_held_once_every_replica_used_up_its_budget():
    assert hold(*deaths(2)) is None
    assert hold(*deaths(2), *deaths(1, ordinal=1)) is None
    assert hold(*deaths(2), *deaths(2, ordinal=1)) == {
        "generation": 3,
        "since": "2026-01-01T12:00:00Z",
    }


def test_it_stays_held_when_the_deaths_are_long_past():
    before = {"hold": {"generation": 3, "since": "2026-01-01T08:00:00Z"}}
    assert hold(held=True, old=before) == before["hold"]


def test_nobody_is_held_who_did_not_ask_for_it():
    everyone = (*deaths(5), *deaths(5, ordinal=1))
    assert hold(*everyone, failurePolicy={"restartBudget": 2}) is None
    assert hold(*everyone, suspend=True) is None
