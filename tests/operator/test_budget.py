from datetime import timedelta

from diffusion_operator.api import FailurePolicy
from diffusion_operator.budget import REMEMBERED, count, exhausted, forgive, uncounted
from diffusion_operator.failures import failures
from tests.operator.builders import NOW, ended, make_pod, observed

POLICY = FailurePolicy()


def counted(seen, restarts, *, now=NOW, policy=POLICY):
    return count(seen, restarts, policy=policy, now=now)


def test_a_death_is_counted_once_while_it_moves_from_state_to_last_state():
    first = counted(failures(observed(make_pod(state=ended(71)))), {})
    later = counted(failures(observed(make_pod(last=ended(71)))), first)
    assert later == first
    assert (first["total"], first["window"], first["budgetRemaining"]) == (1, 1, 4)


def test_an_old_death_leaves_the_window_but_is_not_counted_again_while_a_pod_shows_it():
    seen = failures(observed(make_pod(last=ended(71))))
    later = counted(seen, counted(seen, {}), now=NOW + timedelta(hours=5))
    assert (later["total"], later["window"], later["budgetRemaining"]) == (1, 0, 5)
    assert counted([], later, now=NOW + timedelta(hours=5))["recent"] == []


def test_a_death_inside_the_window_is_remembered_when_its_pod_is_gone():
    before = counted(failures(observed(make_pod(last=ended(71)))), {})
    assert counted([], before) == before


def test_the_budget_ends_at_zero():
    policy = FailurePolicy.model_validate({"restartBudget": 0})
    seen = failures(observed(make_pod(last=ended(71))))
    assert counted(seen, {}, policy=policy)["budgetRemaining"] == 0


def test_deaths_that_no_longer_fit_into_the_list_are_not_counted_again():
    pods = [
        make_pod(
            n, last=ended(71, container=f"c{n}", at=f"2026-01-01T11:{n // 60:02}:{n % 60:02}Z")
        )
        for n in range(REMEMBERED + 20)
    ]
    seen = failures(observed(*pods))
    first = counted(seen, {})
    assert (first["total"], len(first["recent"])) == (REMEMBERED + 20, REMEMBERED)
    assert uncounted(seen, first) == []
    assert counted(seen, first) == first


def deaths(pod, number, *, minute=0):
    """Of one replica, one a second."""
    return [
        make_pod(
            pod, last=ended(71, container=f"{pod}-{n}", at=f"2026-01-01T11:{minute + 30}:{n:02}Z")
        )
        for n in range(number)
    ]


def used_up(restarts, *, now=NOW, policy=POLICY):
    return exhausted(restarts, policy=policy, now=now)


def test_each_replica_has_a_budget_of_its_own():
    restarts = counted(failures(observed(*deaths(0, 4), *deaths(1, 2))), {})
    assert (restarts["window"], restarts["budgetRemaining"]) == (6, 1)
    assert used_up(restarts) == []
    restarts = counted(failures(observed(*deaths(0, 5), *deaths(1, 2))), {})
    assert (restarts["budgetRemaining"], used_up(restarts)) == (0, ["flux-0"])


def test_a_budget_of_none_is_used_up_by_the_first_death_and_not_before():
    policy = FailurePolicy.model_validate({"restartBudget": 0})
    assert used_up(counted([], {}, policy=policy), policy=policy) == []
    restarts = counted(failures(observed(*deaths(0, 1))), {}, policy=policy)
    assert used_up(restarts, policy=policy) == ["flux-0"]


def test_the_window_gives_the_budget_back():
    restarts = counted(failures(observed(*deaths(0, 5))), {})
    assert used_up(restarts, now=NOW + timedelta(hours=2)) == []


def test_what_is_forgiven_stays_counted_but_not_against_the_budget():
    before = counted(failures(observed(*deaths(0, 5))), {})
    after = counted([], forgive(before, NOW))
    assert (after["total"], after["window"], after["budgetRemaining"]) == (5, 5, 5)
    assert used_up(after) == []
    assert counted([], after) == after
