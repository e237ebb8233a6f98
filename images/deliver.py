"""Bringing an image to where pods can use it."""

import subprocess
from pathlib import Path
from typing import Protocol

from images import cache, oci
from images.builder import REGISTRY, timed
from images.engine import find
from images.errors import TargetError
from images.image import Image

TIMEOUT_S = 1800.0


class Cluster(Protocol):
    """What a test cluster offers."""

    def has_blob(self, digest: str) -> bool: ...

    def load_image(self, archive: Path) -> None: ...


def load(cluster: Cluster, image: Image) -> None:
    """Import what the test cluster lacks of the image: mostly our own layers, a megabyte."""
    if cluster.has_blob(oci.manifest_digest(image.archive)):
        return
    if image.packages is not None and not all(
        cluster.has_blob(layer.digest) for layer in oci.read(image.packages).layers
    ):
        with timed(f"imported the packages of {image.name}"):
            cluster.load_image(image.packages)
    with timed(f"imported {image.name}"):
        cluster.load_image(image.archive)


def complete(image: Image, target: Path) -> Path:
    """Write an archive that lacks nothing: for `docker load`, `ctr images import` and others."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return oci.write(image.contents(), image.name, target)


def push(image: Image, registry: str) -> str:
    """Push to a registry, such as `ghcr.io/someone`; returns the name the image has there."""
    reference = f"{registry.rstrip('/')}/{image.name.removeprefix(f'{REGISTRY}/')}"
    engine = find()
    with cache.locked() as folder:
        archive = complete(image, folder / ".complete.tar")
        engine.load(archive, image.name)
        archive.unlink()
    engine.push(image.name, reference)
    return reference


def bring(image: Image, *, context: str, registry: str | None) -> str:
    """Bring an image to the cluster of a kubeconfig's context; returns the name that pods use.

    Raises `TargetError` where it is none of ours, kind's or k3d's and no registry is given.
    """
    if registry:
        return push(image, registry)
    if context == "testcluster":
        from testcluster import Cluster as TestCluster

        load(TestCluster.current(), image)
        return image.name
    kind, _, name = context.partition("-")
    with cache.locked() as folder:
        archive = complete(image, folder / ".complete.tar")
        _run(_loader(kind, name, archive, context))
        archive.unlink()
    return image.name


def _loader(kind: str, name: str, archive: Path, context: str) -> list[str]:
    match kind:
        case "kind":
            return ["kind", "load", "image-archive", str(archive), "--name", name]
        case "k3d":
            return ["k3d", "image", "import", str(archive), "--cluster", name]
    raise TargetError(
        f"context {context} is no test cluster of ours, kind's or k3d's: say which REGISTRY "
        "to push to, one that its nodes can pull from"
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise TargetError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
