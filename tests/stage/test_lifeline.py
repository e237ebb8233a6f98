"""A worker dies with its parent, however the parent ends and whatever the worker is doing."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.stage.pids import wait_gone

CHILD = """
    import os, re, signal, sys, time
    from diffusion_stage.lifeline import follow_parent
    follow_parent(int(sys.argv[1]))
    print("following", flush=True)
    {doing}
"""
PARENT = """
    import os, subprocess, sys, threading, time
    reading, writing = os.pipe()
    def start():
        child = subprocess.Popen(
            [sys.executable, "-c", {child!r}, str(reading)],
            pass_fds=[reading], stdout=subprocess.PIPE, text=True,
        )
        child.stdout.readline()
        print(child.pid, flush=True)
        children.append(child)
    children = []
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()  # the life of the thread that forked means nothing
    os.close(reading)
    time.sleep(60)
"""
DOING = {
    "sleeping": "time.sleep(60)",
    "computing in Python": "while True: pass",
    "in a native call that holds the GIL": "re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ignoring signals": "[signal.signal(n, signal.SIG_IGN) for n in (2, 15, 29)]; time.sleep(60)",
}


def python(code, **given):
    return [sys.executable, "-c", textwrap.dedent(code).format(**given)]


@pytest.fixture
def family():
    """Starts a parent and its child; gives the parent and the child's id."""
    parents = []

    def start(doing):
        child = textwrap.dedent(CHILD).format(doing=doing)
        parent = subprocess.Popen(python(PARENT, child=child), stdout=subprocess.PIPE, text=True)
        parents.append(parent)
        return parent, int(parent.stdout.readline())

    yield start
    for parent in parents:
        parent.kill()
        parent.wait()
        parent.stdout.close()


@pytest.mark.process
@pytest.mark.parametrize("doing", DOING.values(), ids=DOING)
def test_a_child_is_gone_within_a_second_of_its_parents_sigkill(family, doing):
    parent, child = family(doing)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_gone([child], timeout_s=1.0) == []


@pytest.mark.process
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_so_it_is_after_any_other_end(family, signum):
    parent, child = family("time.sleep(60)")
    parent.send_signal(signum)
    parent.wait()
    assert wait_gone([child], timeout_s=1.0) == []


@pytest.mark.process
def test_a_child_lives_as_long_as_its_parent(family):
    parent, child = family("time.sleep(60)")
    assert wait_gone([child], timeout_s=0.3) == [child]
    assert parent.poll() is None


@pytest.mark.process
def test_a_child_whose_parent_was_gone_before_it_looked_dies_at_once():
    reading, writing = os.pipe()
    os.close(writing)
    command = python(CHILD, doing="time.sleep(60)")
    with subprocess.Popen([*command, str(reading)], pass_fds=[reading]) as child:
        os.close(reading)
        assert child.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.process
def test_closing_one_lifeline_spares_the_other():
    pipes = [os.pipe() for _ in range(2)]
    command = python(CHILD, doing="time.sleep(60)")
    children = [
        subprocess.Popen(
            [*command, str(reading)], pass_fds=[reading], stdout=subprocess.PIPE, text=True
        )
        for reading, _ in pipes
    ]
    for child in children:
        assert child.stdout.readline() == "following\n"
    os.close(pipes[0][1])
    assert children[0].wait(timeout=1) == -signal.SIGKILL
    assert wait_gone([children[1].pid], timeout_s=0.2) == [children[1].pid]
    os.close(pipes[1][1])
    assert children[1].wait(timeout=1) == -signal.SIGKILL
    for child, (reading, _) in zip(children, pipes, strict=True):
        os.close(reading)
        child.stdout.close()
