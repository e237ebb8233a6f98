"""Tells a parent of its worker's death before the kernel has taken the worker's memory apart.

Sockets and exit codes come after that: 0.1 s for each gigabyte, several times as long where
processors are short. A robust mutex (`pthread_mutexattr_setrobust(3)`) that the worker holds all
its life passes to whoever waits for it as the first thing of a death, whatever its cause.
"""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Self

SIZE = mmap.PAGESIZE
ATTRIBUTES_SIZE = 64  # more than any C library's pthread_mutexattr_t
PTHREAD_PROCESS_SHARED = PTHREAD_MUTEX_ROBUST = 1

MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]


class DeathNotice:
    """A mutex in anonymous memory that two processes map, until `close` and no object's end."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, SIZE, protection, mmap.MAP_SHARED, descriptor, 0)
        if address == MAP_FAILED:
            raise OSError(ctypes.get_errno(), f"mmap: {os.strerror(ctypes.get_errno())}")
        self._mutex = ctypes.c_void_p(address)

    @classmethod
    def create(cls) -> Self:
        """For the parent. Raises `OSError` where the C library has no robust mutexes."""
        descriptor = os.memfd_create("death-notice")
        os.ftruncate(descriptor, SIZE)
        notice = cls(descriptor)
        attributes = ctypes.create_string_buffer(ATTRIBUTES_SIZE)
        _check(_libc.pthread_mutexattr_init(attributes))
        _check(_libc.pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED))
        _check(_libc.pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST))
        _check(_libc.pthread_mutex_init(notice._mutex, attributes))
        return notice

    def lock(self) -> None:
        """The worker's main thread, once, keeps it; the parent's waits here for the death."""
        _libc.pthread_mutex_lock(self._mutex)

    def close(self) -> None:
        """Once nobody waits."""
        _libc.munmap(self._mutex, ctypes.c_size_t(SIZE))
        os.close(self.descriptor)


def exit_code_of(pid: int) -> int | None:
    """The exit code of a child that is ending, negative for a signal; None where none is known.

    The kernel notes it before it takes the memory apart (`proc_pid_stat(5)`, the last field).
    """
    status = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(" ")[2])
    return os.waitstatus_to_exitcode(status) if status else None


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
