"""File locks that the kernel drops when their holder dies."""

import fcntl
import os
import time
from pathlib import Path

ATTEMPTS = 5  # `holder` has the lock for a moment while it looks


def take(path: Path) -> int | None:
    """Lock `path`, or return None where another process holds it.

    The descriptor belongs to the caller; closing it, or dying, frees the lock. The holder's
    process id is written into the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        return fd
    os.close(fd)
    return None


def holder(path: Path) -> int | None:
    """The process that holds the lock, or None where it is free."""
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or 0) or None
    return None
