"""Where the demo runs: a cluster of its own, or the one that the kubeconfig points at."""

import abc
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import images
from testcluster import Cluster, leftovers

COMMAND_TIMEOUT_S = 900.0


class Target(abc.ABC):
    """Runs kubectl and helm, and brings images in."""

    @abc.abstractmethod
    def up(self) -> str:
        """Make ready; returns what it is."""

    @abc.abstractmethod
    def load(self, image: images.Image) -> str:
        """Bring an image in; returns the name that pods use."""

    @abc.abstractmethod
    def down(self) -> list[str]:
        """End what `up` began; returns what is left behind."""

    @abc.abstractmethod
    def _command(self, program: str, *args: str) -> list[str]: ...

    @abc.abstractmethod
    def _environment(self) -> dict[str, str]: ...

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self._run("kubectl", *args, stdin=stdin)

    def helm(self, *args: str) -> str:
        return self._run("helm", *args)

    def kubectl_popen(self, *args: str, **options: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(self._command("kubectl", *args), env=self._environment(), **options)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def _run(self, program: str, *args: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            self._command(program, *args),
            input=stdin or "",
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout


class OwnCluster(Target):
    """A cluster in namespaces of its own on this machine. With `root` it can be found again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cluster = Cluster(root, store="product")

    def up(self) -> str:
        self._cluster.start()
        version = json.loads(self.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
        return f"Kubernetes {version}, one node"

    def load(self, image: images.Image) -> str:
        images.load(self._cluster, image)
        return image.name

    def keep(self) -> Self:
        self._cluster.keep()
        return self

    def down(self) -> list[str]:
        cluster_id = self._cluster.id
        self._cluster.stop()
        return leftovers(cluster_id)

    def _command(self, program: str, *args: str) -> list[str]:
        return self._cluster.command(program, *args)

    def _environment(self) -> dict[str, str]:
        return self._cluster.environment()


class CurrentCluster(Target):
    """The cluster of the current kubeconfig; the demo works in a namespace of its own there."""

    NAMESPACE = "diffusion-demo"

    def __init__(self, registry: str | None) -> None:
        self._registry = registry

    def up(self) -> str:
        self._context = self._run("kubectl", "config", "current-context").strip()
        self.kubectl("create", "namespace", self.NAMESPACE)
        return f"context {self._context}, namespace {self.NAMESPACE}"

    def load(self, image: images.Image) -> str:
        return images.bring(image, context=self._context, registry=self._registry)

    def down(self) -> list[str]:
        self._run("kubectl", "delete", "namespace", self.NAMESPACE, "--wait")
        left = self._run("kubectl", "get", "diffusionstages", "--all-namespaces", "-o", "name")
        return left.split()

    def _command(self, program: str, *args: str) -> list[str]:
        if program == "kubectl" and args[0] != "config":
            return [program, "--namespace", self.NAMESPACE, *args]
        return [program, *args]

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)


def commands(target: Target, names: Sequence[str]) -> str:
    """How a person runs commands there."""
    prefix = "python -m testcluster exec --name demo -- " if isinstance(target, OwnCluster) else ""
    return "\n".join(f"{prefix}{name}" for name in names)
