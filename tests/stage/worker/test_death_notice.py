"""A worker's death is told before its memory is gone, and with its exit code."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from diffusion_stage.worker.death_notice import DeathNotice, exit_code_of

CHILD = """
import os, signal, sys, time
from diffusion_stage.worker.death_notice import DeathNotice
notice = DeathNotice(int(sys.argv[1]))
notice.lock()
memory = b"x" * int(sys.argv[2])
print("alive", flush=True)
time.sleep(60) if sys.argv[3] == "wait" else os._exit(int(sys.argv[3]))
"""


@pytest.fixture
def notice():
    notice = DeathNotice.create()
    yield notice
    notice.close()


def start(notice, *, size=0, then="wait"):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(notice.descriptor), str(size), then],
        pass_fds=[notice.descriptor],
        stdout=subprocess.PIPE,
    )
    child.stdout.readline()
    return child


def test_a_killed_process_is_known_before_its_descriptors_close(notice):
    with start(notice, size=1 << 30) as child:
        child.kill()
        notice.lock()
        os.set_blocking(child.stdout.fileno(), False)
        assert child.stdout.read() is None  # nothing yet, where b"" were the end
        assert exit_code_of(child.pid) == -signal.SIGKILL
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("code", [0, 71])
def test_a_process_that_ends_by_itself_is_known_too(notice, code):
    with start(notice, then=str(code)) as child:
        notice.lock()
        assert exit_code_of(child.pid) == (code or None)
        assert child.wait() == code


def test_one_that_lives_is_not_dead(notice):
    told = threading.Event()
    with start(notice) as child:
        threading.Thread(target=lambda: (notice.lock(), told.set()), daemon=True).start()
        assert not told.wait(0.2)
        assert exit_code_of(child.pid) is None
        child.kill()
        assert told.wait(10)
