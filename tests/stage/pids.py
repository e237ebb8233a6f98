"""Processes by their ids, also those that are not our children."""

import os
import select
import time
from contextlib import suppress
from pathlib import Path


def wait_gone(pids, timeout_s):
    """Waits until all have ended; returns those that have not."""
    deadline = time.monotonic() + timeout_s
    return [pid for pid in pids if not _is_gone_by(pid, deadline)]


def _is_gone_by(pid, deadline):
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        left_s = max(0.0, deadline - time.monotonic())
        return bool(select.select([watch], [], [], left_s)[0])
    finally:
        os.close(watch)


def children(pid):
    """The live children of a process."""
    found = []
    for folder in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found += [int(child) for child in (folder / "children").read_text().split()]
    return found


def maps(pid):
    """What a process has mapped: libraries, files, shared memory."""
    return Path(f"/proc/{pid}/maps").read_text()
