"""What a test left running: processes, threads and shared memory."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

MARK = "DIFFUSION_STAGE_TEST_RUN"
GRACE_S = 3.0
SHARED_MEMORY = Path("/dev/shm")
PLANTED = "nccl-test"  # segments that a test leaves there on purpose, while others run beside it
# They serve a whole process once somebody asked for them, and end with it.
LASTING_PROCESSES = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
LASTING_THREADS = ("TMonitor", "GarbageCollectorThread")  # of tqdm and pyzmq


Found = Mapping[int, str] | Mapping[str, str]


def mark_processes() -> None:
    """Lets processes be found that lost their parent: they inherit a mark in the environment."""
    os.environ[MARK] = str(os.getpid())


def processes() -> dict[int, str]:
    """Command lines of our descendants, by process id; zombies do not count."""
    found: dict[int, str] = {}
    parents: dict[int, int] = {}
    marked: set[int] = set()
    mark = f"{MARK}={os.getpid()}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
        pid = int(folder.name)
        if stat[0] != "Z" and not any(name in command for name in LASTING_PROCESSES):
            found[pid] = command
            parents[pid] = int(stat[1])
            if mark in environment:
                marked.add(pid)
    return {
        pid: command
        for pid, command in found.items()
        if pid != os.getpid() and (pid in marked or _descends(pid, parents))
    }


def threads() -> dict[int, str]:
    """Names of the live Python threads, by identity."""
    return {
        id(thread): thread.name
        for thread in threading.enumerate()
        if type(thread).__name__ not in LASTING_THREADS
    }


def shared_memory() -> dict[str, str]:
    """The named segments of this machine; those of the product have no name and count as memory."""
    names = (path.name for path in SHARED_MEMORY.iterdir())
    return {name: "shared memory" for name in names if not name.startswith(PLANTED)}


def remaining(look: Callable[[], Found], before: Found) -> list[str]:
    """What `look` finds that was not there before, after some grace."""
    deadline = time.monotonic() + GRACE_S
    while (new := _new(look(), before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return new


def _new(now: Found, before: Found) -> list[str]:
    return [f"{key}: {what}" for key, what in now.items() if key not in before]


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False
