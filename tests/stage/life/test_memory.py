"""What the processes of a stage have mapped, and what they leave."""

import pytest

from tests import leaks
from tests.stage.pids import maps

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def test_the_stage_process_imports_no_torch(shared):
    assert "libtorch" not in maps(shared.process.pid)
    for pid in shared.workers().values():
        assert "libtorch" in maps(pid)


def test_large_outputs_leave_nothing_with_a_name(shared):
    before = leaks.shared_memory()
    with shared.client() as client:
        client.accepted("large", output_mb=4, output="tensor")
        client.end_of("large")
        assert leaks.shared_memory().keys() <= before.keys()
    for pid in [shared.process.pid, *shared.workers().values()]:
        assert "/dev/shm" not in maps(pid)


def test_shared_memory_is_used_again(shared):
    def segments():
        return [line for line in maps(shared.process.pid).splitlines() if "memfd:" in line]

    with shared.client() as client:
        for number in range(12):
            client.accepted(f"{number}", output_mb=4, output="tensor")
            client.end_of(f"{number}")
    assert 1 <= len(segments()) <= 4
