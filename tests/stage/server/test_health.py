"""The probes in each part of the stage's life."""

import pytest

from diffusion_stage.errors import HangError
from diffusion_stage.server.health import Health, Phase

PROBES = {
    Phase.STARTUP: (False, True, False),
    Phase.SERVING: (True, True, True),
    Phase.DRAINING: (True, True, False),
}


def probes(health):
    return tuple(is_content for is_content, _ in (health.startup(), health.live(), health.ready()))


@pytest.mark.parametrize(("phase", "expected"), PROBES.items())
def test_each_phase_has_its_probes(phase, expected):
    health = Health()
    health.enter(phase)
    assert probes(health) == expected
    assert health.live()[1] == str(phase)


def test_the_dead_fail_every_probe_and_say_why():
    health = Health()
    health.enter(Phase.SERVING)
    health.die(HangError("no step for 300 s"))
    assert probes(health) == (False, False, False)
    assert health.ready()[1] == "dead: Hang: no step for 300 s"


@pytest.mark.parametrize("last", [Phase.DRAINING, Phase.DEAD])
def test_no_phase_comes_back(last):
    health = Health()
    health.enter(Phase.DRAINING)
    if last is Phase.DEAD:
        health.die(HangError("no step"))
    health.enter(Phase.SERVING)
    health.enter(Phase.DRAINING)
    assert health.phase is last
