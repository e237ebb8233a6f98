"""What every test may ask for, and the check that none leaves anything behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Before torch is imported: the machine's cores are shared with the processes under test, and no
# test asks a hub for anything.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from testcluster import requirements
from tests import leaks

leaks.mark_processes()
# A shell that runs tests in the background has them and their children ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
ROOT = Path(__file__).parents[1]


def needs_cluster(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("cluster", "e2e"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where no cluster can run, what needs one is skipped, and says what to do."""
    if needs_cluster(item) and (missing := requirements.missing()):
        pytest.skip("; ".join(missing))


@pytest.fixture(scope="session")
def icons_model() -> Path:
    """The folder of the trained icon model."""
    return ROOT / "models" / "icons-zimage-tiny"


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a process, thread or segment of shared memory behind.

    Tests on the cluster are left out: the cluster outlives them, and its own tests check its end.
    """
    if needs_cluster(request.node):
        yield
        return
    looks = (leaks.processes, leaks.threads, leaks.shared_memory)
    before = [look() for look in looks]
    yield
    left = [leaks.remaining(look, was) for look, was in zip(looks, before, strict=True)]
    assert left == [[], [], []], f"left behind: {[each for kind in left for each in kind]}"
