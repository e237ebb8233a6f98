"""Ties a worker's life to its parent process: the kernel kills it when the parent is gone.

The parent keeps the write end of a pipe that it never writes to. When the parent ends, however it
ends, the kernel closes that end and sends the signal chosen with F_SETSIG to the reader's process
(`fcntl(2)`). This holds for the process, where PR_SET_PDEATHSIG follows the thread that forked, and
it needs no Python code to run, so a worker inside a long native call dies as well.
"""

import fcntl
import os
import signal


def follow_parent(read_fd: int) -> None:
    """Die by SIGKILL when the other end of the pipe `read_fd` closes; keeps the descriptor."""
    fcntl.fcntl(read_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(read_fd, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(read_fd, fcntl.F_GETFL)
    fcntl.fcntl(read_fd, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    if _is_closed(read_fd):  # the parent was gone before the signal was set up
        os.kill(os.getpid(), signal.SIGKILL)


def _is_closed(read_fd: int) -> bool:
    try:
        return os.read(read_fd, 1) == b""
    except BlockingIOError:
        return False
