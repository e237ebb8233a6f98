"""The process on the host that owns a cluster: it starts it, and ends it with every trace.

It ends the cluster on SIGTERM, and when its owner, the process that launched it, is gone however
it died; SIGUSR1 frees it from its owner. If the guard itself is killed, the cluster dies with it
(`setpriv --pdeathsig`), and the next `stop` of the same root removes the control groups.
"""

import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from testcluster import cgroups, layout, locks, store
from testcluster.layout import Layout
from testcluster.progress import Progress
from testcluster.spec import Spec

# What runs under the first dies with this process; under the second, with unshare.
DIE_WITH_GUARD = ["setpriv", "--pdeathsig", "SIGKILL"]
NEW_NAMESPACES = ["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"]
UNSHARE = [*DIE_WITH_GUARD, "unshare", *NEW_NAMESPACES, "--kill-child=SIGKILL"]

logger = logging.getLogger(__name__)


class Guard:
    """Owns the namespaces, the image store's lock and the control groups of one cluster."""

    def __init__(self, where: Layout, owner_pid: int) -> None:
        self._layout = where
        self._spec = Spec.read(where)
        self._signals = self._listen()
        self._owner: int | None = os.pidfd_open(owner_pid)
        self._owner_pid = owner_pid

    @staticmethod
    def _listen() -> int:
        """A pipe's end on which the numbers of arriving signals can be read."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return read

    def run(self) -> bool:
        """Live as long as the cluster does. True where it was ended, False where it broke."""
        folder, store_lock = store.take(layout.cache(), self._spec.store)
        self._layout.store_link.unlink(missing_ok=True)
        self._layout.store_link.symlink_to(folder)
        inside = [sys.executable, "-m", "testcluster.inside", str(self._layout.root)]
        process = subprocess.Popen([*UNSHARE, *inside], stdin=subprocess.DEVNULL)
        try:
            init_pid = _only_child(process)
            if init_pid is None:
                return False
            init = os.pidfd_open(init_pid)
            self._layout.init_pid.write_text(str(init_pid))
            asked = self._watch()
            _kill(init)
            process.wait()
            return asked
        finally:
            process.kill()
            process.wait()
            os.close(store_lock)

    def _watch(self) -> bool:
        """Return when the cluster has ended (False) or shall end (True)."""
        if os.getppid() != self._owner_pid:
            return True  # the owner died before its pidfd was open
        while True:
            sources = [self._signals] if self._owner is None else [self._signals, self._owner]
            ready, _, _ = select.select(sources, [], [])
            numbers = self._arrived()  # first: a launcher may say `keep` and be gone at once
            if signal.SIGTERM in numbers or signal.SIGCHLD in numbers:
                return signal.SIGTERM in numbers
            if signal.SIGUSR1 in numbers and self._owner is not None:
                os.close(self._owner)
                self._owner = None
            if self._owner is not None and self._owner in ready:
                logger.info("the launcher is gone")
                return True

    def _arrived(self) -> bytes:
        """The numbers of the signals that arrived since the last call."""
        try:
            return os.read(self._signals, 64)
        except BlockingIOError:
            return b""


def _only_child(process: subprocess.Popen[bytes]) -> int | None:
    """The first process of the new pid namespace; None where unshare ended without one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        try:
            found = children.read_text().split()
        except OSError:
            continue
        if found:
            return int(found[0])
        time.sleep(0.002)
    return None


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        logger.info("the cluster ended by itself")
    os.close(pidfd)


def sweep(where: Layout) -> None:
    """Remove what outlives the processes of a cluster: control groups, and the nodes' files."""
    cgroups.remove(where.id)
    for path in (where.init_pid, where.store_link):
        path.unlink(missing_ok=True)
    for name in ("etcd", "pki", "kubeconfig", *(f"node-{n}" for n in range(1, 10))):
        shutil.rmtree(where.root / name, ignore_errors=True)


def main() -> None:
    """Guard the cluster of the folder given, for the owner given by its process id."""
    where, owner_pid = Layout(Path(sys.argv[1])), int(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    lock = locks.take(where.lock)
    if lock is None:
        sys.exit(f"a cluster is already up in {where.root}")
    sweep(where)
    asked = False
    try:
        asked = Guard(where, owner_pid).run()
    except Exception as error:
        Progress(where.progress).failed(f"the guard of the cluster ended: {error!r}")
        raise
    finally:
        sweep(where)
        if asked and Spec.read(where).ephemeral:  # else its logs say what broke
            shutil.rmtree(where.root, ignore_errors=True)


if __name__ == "__main__":
    main()
