"""A cluster as a context manager: its life, and what can be done with it while it is up."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testcluster import binaries as builds
from testcluster import containerd, layout, locks, progress
from testcluster.environment import environment, link_commands
from testcluster.errors import CommandError, StartError
from testcluster.guard import sweep
from testcluster.layout import Layout
from testcluster.spec import Spec

ENTER = Path(__file__).with_name("enter.py")
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0

logger = logging.getLogger("testcluster")


class Cluster:
    """Owns one cluster from `start` to `stop`, or use it in `with`.

    It ends with this process, however this process ends, unless `keep` was called. `root` holds
    its files and logs; without one it gets a folder of its own, removed at the end. `gpus` is
    what each node claims of `nvidia.com/gpu`. `binaries` is a folder of prebuilt binaries.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        nodes: int = 1,
        gpus: int = 0,
        binaries: Path | None = None,
    ) -> None:
        self._given_root = root
        self._nodes = nodes
        self._gpus = gpus
        self._binaries = binaries
        self._guard: subprocess.Popen[bytes] | None = None
        self._kept = False
        self._where: Layout | None = None

    @classmethod
    def attach(cls, root: Path) -> Self:
        """The cluster that runs in `root`; it stays when this object goes."""
        cluster = cls.last(root)
        if locks.holder(cluster.layout.lock) is None:
            raise StartError(f"no cluster is up in {root}: run `python -m testcluster up`")
        cluster._nodes = Spec.read(cluster.layout).nodes
        return cluster

    @classmethod
    def last(cls, root: Path) -> Self:
        """The cluster that is or was in `root`: `stop` ends it, and what a crash left of it."""
        cluster = cls(root)
        cluster._where, cluster._kept = Layout(root.resolve()), True
        return cluster

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._kept:
            self.stop()

    # --- life ---

    def start(self) -> None:
        """Return when pods can be made. Raises StartError, and then nothing is left running."""
        folder = builds.provide(self._binaries)
        where = self._make_root()
        spec = Spec(self._nodes, self._gpus, str(folder), ephemeral=self._given_root is None)
        if locks.holder(where.lock) is not None:
            raise StartError(f"a cluster is already up in {where.root}")
        where.progress.unlink(missing_ok=True)
        spec.write(where)
        link_commands(where, folder)
        self._where = where
        try:
            self._guard = self._launch(where)
            self._wait_until_ready(where)
        except BaseException:
            self.stop()
            raise

    def _make_root(self) -> Layout:
        if self._given_root is None:
            clusters = layout.cache() / "clusters"
            clusters.mkdir(parents=True, exist_ok=True)
            root = Path(tempfile.mkdtemp(dir=clusters, prefix="tmp-"))
        else:
            root = self._given_root.resolve()
        where = Layout(root)
        where.logs.mkdir(parents=True, exist_ok=True)
        return where

    def _launch(self, where: Layout) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(layout.REPOSITORY), os.environ.get("PYTHONPATH", "")])
        with (where.logs / "guard.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "testcluster.guard", str(where.root), str(os.getpid())],
                env={**os.environ, "PYTHONPATH": path, "TESTCLUSTER_ID": where.id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the launcher
            )

    def _wait_until_ready(self, where: Layout) -> None:
        assert self._guard is not None
        deadline, seen = time.monotonic() + START_TIMEOUT_S, 0
        while time.monotonic() < deadline:
            ended = self._guard.poll() is not None
            for event in progress.events(where.progress, seen):
                seen += 1
                if event.kind == "failed":
                    raise StartError(event.text)
                logger.info("%5.1f s  %s", event.seconds, event.text)
                if event.kind == "ready":
                    return
            if ended:
                raise StartError(f"the cluster's guard ended; see {where.logs / 'guard.log'}")
            time.sleep(0.03)
        raise StartError(f"the cluster is not ready after {START_TIMEOUT_S:g} s: {where.logs}")

    def keep(self) -> None:
        """Let the cluster outlive this process, until someone stops it."""
        os.kill(self._guard_pid(), signal.SIGUSR1)
        self._kept = True

    def stop(self) -> None:
        """End the cluster and everything in it. Does nothing where none is up."""
        if self._where is None:
            return
        pid = locks.holder(self._where.lock)
        if self._guard is not None:
            self._guard.terminate()
            _end(self._guard)
        elif pid is not None:
            os.kill(pid, signal.SIGTERM)
            _wait_for_lock(self._where.lock)
        sweep(self._where)  # nothing to do, unless the guard was killed
        self._guard = None

    def _guard_pid(self) -> int:
        pid = locks.holder(self.layout.lock)
        if pid is None:
            raise StartError(f"no cluster is up in {self.layout.root}")
        return pid

    # --- where things are ---

    @property
    def layout(self) -> Layout:
        if self._where is None:
            raise StartError("the cluster has not been started")
        return self._where

    @property
    def id(self) -> str:
        """What `leftovers` takes."""
        return self.layout.id

    @property
    def kubeconfig(self) -> Path:
        """An administrator's; its address answers only inside the cluster's namespaces."""
        return self.layout.kubeconfig

    # --- commands inside ---

    def command(self, *command: str | Path) -> list[str]:
        """The command line that runs `command` inside the cluster's namespaces."""
        try:
            pid = self.layout.init_pid.read_text()
        except FileNotFoundError:
            raise StartError(f"no cluster is up in {self.layout.root}") from None
        return [sys.executable, "-I", "-S", str(ENTER), pid, *map(str, command)]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Of commands inside: this process's, `extra`, kubectl, helm and KUBECONFIG."""
        return environment(self.layout, {**os.environ, **(extra or {})})

    def run(
        self,
        *command: str | Path,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end. With `check`, a code other than 0 is a CommandError."""
        try:
            done = subprocess.run(
                self.command(*command),
                input=stdin if stdin is not None else "",
                env=self.environment(env),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{_line(command)} did not end in {timeout_s:g} s") from error
        if check and done.returncode != 0:
            raise CommandError(f"{_line(command)} ended with {done.returncode}: {done.stderr}")
        return done

    def popen(
        self, *command: str | Path, env: Mapping[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[Any]":
        """Start a command inside. Signals sent to the result reach the command; it dies with it."""
        return subprocess.Popen(self.command(*command), env=self.environment(env), **options)

    def kubectl(self, *args: str, stdin: str | None = None, timeout_s: float = 120.0) -> str:
        return self.run("kubectl", *args, stdin=stdin, timeout_s=timeout_s).stdout

    def helm(self, *args: str | Path, timeout_s: float = 300.0) -> str:
        return self.run("helm", *args, timeout_s=timeout_s).stdout

    def apply(self, *manifests: Mapping[str, Any]) -> str:
        """kubectl apply; returns what it printed."""
        return self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """The object; empty where there is none."""
        command = ["get", kind, name, "--namespace", namespace, "--ignore-not-found"]
        found: dict[str, Any] = yaml.safe_load(self.kubectl(*command, "-o", "json") or "{}")
        return found

    # --- images ---

    def load_image(self, archive: Path) -> None:
        """Import an OCI archive into every node. It may leave out layers that `has_blob` has."""
        for number in range(1, self._nodes + 1):
            with archive.open("rb") as file:
                command = containerd.ctr(number, "images", "import", "-")
                done = subprocess.run(
                    self.command(*command), stdin=file, capture_output=True, text=True, check=False
                )
            if done.returncode != 0:
                raise CommandError(f"cannot import {archive} into node-{number}: {done.stderr}")

    def has_blob(self, digest: str) -> bool:
        """Whether every node has the content with this digest, such as `sha256:0f3e…`."""
        stores = self.layout.store_link.resolve()
        numbers = range(1, self._nodes + 1)
        return all(
            containerd.blob(containerd.store_of(stores, n), digest).exists() for n in numbers
        )


def _line(command: tuple[str | Path, ...]) -> str:
    return " ".join(map(str, command))


def _end(guard: "subprocess.Popen[bytes]") -> None:
    try:
        guard.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()


def _wait_for_lock(path: Path) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while locks.holder(path) is not None:
        if time.monotonic() > deadline:
            raise StartError(f"the cluster did not end in {STOP_TIMEOUT_S:g} s")
        time.sleep(0.02)
