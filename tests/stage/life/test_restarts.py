"""A stage that dies and starts again in the same place, as a container in its pod."""

import os
import signal

import pytest

from tests.leaks import PLANTED, SHARED_MEMORY


def leave_a_segment(number):
    """What NCCL makes, and a killed worker cannot unlink."""
    (SHARED_MEMORY / f"{PLANTED}{number}").write_bytes(bytes(2**20))


def left():
    return list(SHARED_MEMORY.glob(f"{PLANTED}*"))


@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cycles", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_restarts_in_place_do_not_fill_the_shared_memory(serve, cycles):
    """T23"""
    for cycle in range(cycles):
        stage = serve(num_gpus=2).wait_ready()
        assert left() == []
        leave_a_segment(cycle)
        os.kill(stage.workers()[1], signal.SIGKILL)
        assert stage.end() == 71
    serve(num_gpus=2).wait_ready()
    assert left() == []
