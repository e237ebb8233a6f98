"""The leak check itself: what it must find, and what it must not."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tests import leaks

SLEEP = "import time; time.sleep(60)"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(leaks, "GRACE_S", 0.1)


def test_a_running_child_is_found():
    before = leaks.processes()
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        left = leaks.remaining(leaks.processes, before)
        child.kill()
    assert [each for each in left if each.startswith(f"{child.pid}:")]


def test_an_orphan_is_found_by_its_mark():
    before = leaks.processes()
    parent = (
        "import subprocess as s, sys;"
        f"print(s.Popen([sys.executable, '-c', {SLEEP!r}], stdout=s.DEVNULL).pid)"
    )
    orphan = int(subprocess.check_output([sys.executable, "-c", parent]))
    left = leaks.remaining(leaks.processes, before)
    os.kill(orphan, signal.SIGKILL)
    assert [each for each in left if each.startswith(f"{orphan}:")]


def test_a_running_thread_is_found_until_it_ends():
    before = leaks.threads()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="forgotten")
    thread.start()
    assert "forgotten" in leaks.remaining(leaks.threads, before)[0]
    stop.set()
    thread.join()
    assert leaks.remaining(leaks.threads, before) == []
