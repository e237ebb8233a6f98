"""The API server misbehaves; the operator catches up in time, and pods never notice."""

import time

import pytest

from tests.cluster.operator.outcome import quiet
from tests.cluster.operator.stages import Stages, until

pytestmark = pytest.mark.cluster
LASTS_S = 4.0
CATCHES_UP_S = 15.0  # twice what it takes at worst on an idle machine


def gone(faults):
    assert faults.watches("gone") >= 5


def gone_at_start(faults):
    faults.add("status", status=410, verb="watch", times=20)
    faults.watches("cut")


def cut(faults):
    assert faults.watches("cut") >= 5


def failing(faults):
    faults.add("status", status=500)
    faults.watches("cut")


def overloaded(faults):
    faults.add("status", status=429, headers={"Retry-After": "1"})
    faults.watches("cut")


def slow(faults):
    faults.add("slow", seconds=1.5)


def dropping(faults):
    faults.add("drop")
    faults.watches("cut")


def garbled(faults):
    faults.add("garbage")
    faults.watches("cut")


def away(faults):
    faults.away()


FAULTS = [gone, failing, away, cut, overloaded, slow, dropping]
FATAL = [gone_at_start, garbled]


@pytest.fixture(scope="module")
def steady(proxied, installed):
    """An operator and a stage that live through all faults, and the stage's pods at the start."""
    _, operator = proxied
    operator.start()
    stages = Stages(installed)
    try:
        stages.make("steady", replicas=2)
        yield stages.pods("steady")
    finally:
        stages.remove()
        operator.end()


def edit(installed, stages, number):
    """Something that changes no pod template, and something that others did."""
    stages.change("steady", updateStrategy={"partition": number})
    installed.kubectl("delete", "svc", "steady")


def is_repaired(installed, number):
    workload = installed.get("sts", "steady")["spec"]["updateStrategy"]
    service = installed.get("svc", "steady")
    return workload["rollingUpdate"]["partition"] == number and service


def name_of(fault):
    return fault.__name__


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_an_edit_made_during_a_fault_is_carried_out_soon_after(
    fault, steady, faults, stages, installed, tell
):
    number = 1 + FAULTS.index(fault)
    fault(faults)
    edit(installed, stages, number)
    time.sleep(LASTS_S)
    faults.heal()
    healed = time.monotonic()
    until(lambda: is_repaired(installed, number), within_s=CATCHES_UP_S)
    tell(f"{name_of(fault)}: caught up after {time.monotonic() - healed:.1f} s")
    assert stages.pods("steady") == steady, "no pod is touched"
    quiet(faults)


@pytest.mark.parametrize("fault", FATAL, ids=name_of)
def test_what_no_api_server_says_ends_the_operator_so_that_it_is_restarted(
    fault, steady, proxied, faults, stages, installed
):
    """Better than one that lives and sees nothing; its Deployment starts it again."""
    _, operator = proxied
    number = 20 + FATAL.index(fault)
    fault(faults)
    edit(installed, stages, number)
    assert operator.wait() != 0
    faults.heal()
    operator.start()
    until(lambda: is_repaired(installed, number))
    assert stages.pods("steady") == steady, "no pod is touched"
