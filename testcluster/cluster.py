"""A cluster as a context manager, and what can be done with it while it is up."""

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testcluster import binaries as sources
from testcluster import containerd, layout, locks
from testcluster.environment import environment, is_inside, link_commands
from testcluster.errors import CommandError, StartError
from testcluster.launcher import Launcher
from testcluster.layout import Layout
from testcluster.spec import Spec

ENTER = Path(__file__).with_name("enter.py")


class Cluster:
    """Owns one cluster from `start` to `stop`, or use it in `with`.

    It ends with this process, however this process ends, unless `keep` was called. `root` holds
    its files and logs; without one it gets a folder of its own, removed at the end. `nodes` may
    be 0: an API server and its controllers. `gpus` is what each node claims of `nvidia.com/gpu`.
    `binaries` is a folder of prebuilt binaries. `store` names the image store, kept between starts:
    a cluster of the same name, later, finds its images.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        nodes: int = 1,
        gpus: int = 0,
        binaries: Path | None = None,
        store: str = "default",
    ) -> None:
        self._spec = Spec(nodes, gpus, binaries="", ephemeral=root is None, store=store)
        self._binaries = binaries
        self._where = Layout(root.resolve()) if root else None
        self._launcher = Launcher(self._where) if self._where else None
        self._owned = True

    @classmethod
    def attach(cls, root: Path) -> Self:
        """The cluster that runs in `root`. It stays up when this object goes."""
        cluster = cls.last(root)
        if locks.holder(cluster.layout.lock) is None:
            raise StartError(f"no cluster is up in {root}: run `python -m testcluster up`")
        cluster._spec = Spec.read(cluster.layout)
        return cluster

    @classmethod
    def current(cls) -> Self:
        """The cluster that this process runs inside of, as the KUBECONFIG of `run` says."""
        kubeconfig = Path(os.environ.get("KUBECONFIG", ""))
        cluster = cls.last(kubeconfig.parent.parent)
        if kubeconfig != cluster.kubeconfig or not is_inside(cluster.layout):
            raise StartError("this process does not run inside a test cluster")
        cluster._spec = Spec.read(cluster.layout)
        return cluster

    @classmethod
    def last(cls, root: Path) -> Self:
        """The cluster that is or was in `root`: `stop` ends it, and what a crash left of it."""
        cluster = cls(root)
        cluster._owned = False
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
        if self._owned:
            self.stop()

    def start(self) -> None:
        """Return when pods can be made. Raises StartError, and then nothing is left running."""
        folder = sources.provide(self._binaries)
        where = self._where = self._where or Layout(_own_folder())
        link_commands(where, folder)
        self._launcher = self._launcher or Launcher(where)
        self._launcher.start(dataclasses.replace(self._spec, binaries=str(folder)))

    def keep(self) -> None:
        """Let the cluster outlive this process, until someone stops it."""
        Launcher(self.layout).keep()
        self._owned = False

    def stop(self) -> None:
        """End the cluster and everything in it. Does nothing where none is up."""
        if self._launcher is not None:
            self._launcher.stop()

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
        words = list(map(str, command))
        if is_inside(self.layout):
            return words
        try:
            pid = self.layout.init_pid.read_text()
        except FileNotFoundError:
            raise StartError(f"no cluster is up in {self.layout.root}") from None
        return [sys.executable, "-I", "-S", str(ENTER), pid, *words]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Of commands inside: this process's, `extra`, kubectl, helm and KUBECONFIG."""
        return environment(self.layout, {**os.environ, **(extra or {})})

    def run(
        self,
        *command: str | Path,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end. With `check`, a code other than 0 is a CommandError."""
        line = " ".join(map(str, command))
        try:
            done = subprocess.run(
                self.command(*command),
                input=stdin,
                env=self.environment(env),
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"{line} did not end in {timeout_s:g} s") from error
        if check and done.returncode != 0:
            raise CommandError(f"{line} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done

    def popen(
        self, *command: str | Path, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command inside. Signals sent to the result reach it; it dies with the result."""
        return subprocess.Popen(self.command(*command), env=self.environment(env), **options)

    def kubectl(self, *args: str, stdin: str | None = None, timeout_s: float = 120.0) -> str:
        return self.run("kubectl", *args, stdin=stdin or "", timeout_s=timeout_s).stdout

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
        for number in self._spec.numbers:
            with archive.open("rb") as file:
                command = self.command(*containerd.ctr(number, "images", "import", "-"))
                done = subprocess.run(
                    command, stdin=file, capture_output=True, text=True, check=False
                )
            if done.returncode != 0:
                raise CommandError(f"cannot import {archive} into node-{number}: {done.stderr}")

    def has_blob(self, digest: str) -> bool:
        """Whether every node has the content with this digest, such as `sha256:0f3e…`."""
        stores = self.layout.store_link.resolve()
        nodes = [containerd.store_of(stores, number) for number in self._spec.numbers]
        return all(containerd.blob(node, digest).exists() for node in nodes)


def _own_folder() -> Path:
    clusters = layout.cache() / "clusters"
    clusters.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=clusters, prefix="tmp-"))
