"""The operator is killed after each of its writes in turn; the next one brings the same outcome."""

import pytest

from tests.cluster.operator.outcome import outcome, quiet
from tests.cluster.operator.stages import DEAD_WORKER, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def make(name, stages, installed):
    stages.make(name, ready=False, replicas=0)


def is_made(name, stages, installed):
    return stages.status(name)


def edit(name, stages, installed):
    """Changes a child, prunes another, and a third is to be put right besides."""
    installed.kubectl("patch", "svc", name, "-p", '{"spec": {"selector": {"a": "b"}}}')
    budget, strategy = {"enabled": False}, {"partition": 3}
    stages.change(name, updateStrategy=strategy, podDisruptionBudget=budget)


def is_edited(name, stages, installed):
    return not installed.get("pdb", name)


def die(name, stages, installed):
    stages.ask(f"{name}-0", DEAD_WORKER)


def is_dead(name, stages, installed):
    return stages.status(name)["restarts"]["total"]


DONE = {make: is_made, edit: is_edited, die: is_dead}


class Crashes:
    """Does the same to one stage after another, and kills the operator after its n-th write."""

    def __init__(self, operator, faults, stages, cluster):
        self._operator = operator
        self._faults = faults
        self._stages = stages
        self._cluster = cluster

    def undisturbed(self, action, name):
        action(name, self._stages, self._cluster)
        return self._settled(action, name)

    def killed(self, action, name, *, after_writes):
        """The outcome; None where all was done with fewer writes."""
        self._faults.hold(after_writes=after_writes)
        action(name, self._stages, self._cluster)
        until(lambda: self._faults.is_held() or self._is_over(action, name))
        if not self._faults.is_held():
            return None
        self._operator.kill()
        self._faults.heal()
        self._operator.start()
        return self._settled(action, name)

    def _is_over(self, action, name):
        done = DONE[action](name, self._stages, self._cluster)
        return done and not self._faults.writes_within(1)

    def _look(self, name):
        return outcome(self._cluster, self._stages, name)

    def _settled(self, action, name):
        until(lambda: DONE[action](name, self._stages, self._cluster))
        self._stages.wait(name, "condition=Progressing=False")
        quiet(self._faults)
        return self._look(name)


@pytest.fixture
def crashes(behind, faults, stages, installed):
    behind.start()
    quiet(faults)
    return Crashes(behind, faults, stages, installed)


def check(crashes, action, *, fewest_writes):
    """One stage for each write, and one more to see that there are no further writes."""
    names = names_for(action)
    expected = crashes.undisturbed(action, names[0])
    for n, name in enumerate(names[1:], start=1):
        found = crashes.killed(action, name, after_writes=n)
        if found is None:
            assert n > fewest_writes
            return
        assert found == expected, f"after write {n}"
    raise AssertionError(f"more writes than {len(names) - 1}: prepare more stages")


def names_for(action):
    return [f"{action.__name__}-{n}" for n in range(11)]


def prepare(stages, faults, action, **spec):
    """All at once: they start at the same time."""
    stages.make_all(dict.fromkeys(names_for(action), spec))
    for name in names_for(action):
        stages.wait(name)
    quiet(faults)


def test_a_crash_amid_the_writes_for_a_new_stage_leaves_no_trace(crashes):
    expected = crashes.undisturbed(make, "make-0")
    assert crashes.killed(make, "make-3", after_writes=3) == expected


@pytest.mark.slow
def test_a_crash_after_any_write_while_a_stage_is_made_leaves_no_trace(crashes):
    check(crashes, make, fewest_writes=5)


def test_a_crash_after_any_write_while_a_stage_is_edited_leaves_no_trace(crashes, stages, faults):
    prepare(stages, faults, edit, replicas=0)
    check(crashes, edit, fewest_writes=4)


@pytest.mark.slow
def test_a_crash_after_any_write_about_a_death_leaves_no_trace(crashes, stages, faults):
    prepare(stages, faults, die)
    check(crashes, die, fewest_writes=2)
