"""Starts the guard of a cluster, follows its start, and ends it."""

import dataclasses
import logging
import os
import shutil
import signal
import subprocess
import sys
import time

from testcluster import layout, locks, progress
from testcluster.errors import StartError
from testcluster.guard import sweep
from testcluster.layout import Layout
from testcluster.spec import Spec

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0

logger = logging.getLogger("testcluster")


class Launcher:
    """Owns the guard of the cluster in `where`, until `keep`: the guard watches this process."""

    def __init__(self, where: Layout) -> None:
        self._where = where
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, spec: Spec) -> None:
        """Return when the cluster is ready. After an error nothing of it runs; its logs stay."""
        if locks.holder(self._where.lock) is not None:
            raise StartError(f"a cluster is already up in {self._where.root}")
        self._where.progress.unlink(missing_ok=True)
        shutil.rmtree(self._where.logs, ignore_errors=True)
        self._where.logs.mkdir(parents=True)
        spec.write(self._where)
        try:
            self._guard = self._launch()
            self._follow(self._guard)
        except BaseException as error:
            if isinstance(error, StartError):
                dataclasses.replace(spec, ephemeral=False).write(self._where)
            self.stop()
            raise

    def _launch(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(layout.REPOSITORY), os.environ.get("PYTHONPATH", "")])
        guard = ["-m", "testcluster.guard", str(self._where.root), str(os.getpid())]
        with (self._where.logs / "guard.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *guard],
                env={**os.environ, "PYTHONPATH": path, "TESTCLUSTER_ID": self._where.id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the launcher
            )

    def _follow(self, guard: subprocess.Popen[bytes]) -> None:
        """Log what the cluster says until it is ready."""
        deadline, seen = time.monotonic() + START_TIMEOUT_S, 0
        while time.monotonic() < deadline:
            ended = guard.poll() is not None  # before reading: its last words are read below
            for event in progress.events(self._where.progress, seen):
                seen += 1
                if event.kind == "failed":
                    raise StartError(event.text)
                logger.info("%5.1f s  %s", event.seconds, event.text)
                if event.kind == "ready":
                    return
            if ended:
                raise StartError(f"the guard ended; see {self._where.logs / 'guard.log'}")
            time.sleep(0.03)
        raise StartError(f"not ready after {START_TIMEOUT_S:g} s; logs in {self._where.logs}")

    def keep(self) -> None:
        """Let the cluster outlive this process."""
        guard = locks.holder(self._where.lock)
        if guard is None:
            raise StartError(f"no cluster is up in {self._where.root}")
        os.kill(guard, signal.SIGUSR1)

    def stop(self) -> None:
        """End the cluster, whoever started it, and remove what a killed guard left of it."""
        holder = locks.holder(self._where.lock)
        if self._guard is not None:
            self._guard.terminate()
            _wait_for_end(self._guard)
            self._guard = None
        elif holder is not None:
            os.kill(holder, signal.SIGTERM)
            self._wait_until_free()
        sweep(self._where)

    def _wait_until_free(self) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while locks.holder(self._where.lock) is not None:
            if time.monotonic() > deadline:
                raise StartError(f"the cluster did not end in {STOP_TIMEOUT_S:g} s")
            time.sleep(0.02)


def _wait_for_end(guard: subprocess.Popen[bytes]) -> None:
    try:
        guard.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()
