"""Building an image: its packages once, its code in seconds, nothing where nothing changed."""

import functools
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from images import base as bases
from images import cache, debian, oci
from images.engine import Build, Engine, find
from images.image import Image
from images.rebase import rebase
from images.recipe import DEMO, RECIPES, Recipe

REGISTRY = "docker.io/diffusionstage"
OURS = "ours"  # marks an image that lacks its packages
KEPT = 10
NEEDED_GB = {"stage": 20, "operator": 2}

logger = logging.getLogger(__name__)


def build(target: str, *, tag: str | None = None) -> Image:
    """The image `stage`, `demo` or `operator`, as the working tree is now.

    The tag is a hash of everything that goes into it, unless one is given.
    """
    with cache.locked() as folder:
        image = Builder(RECIPES[target], folder, functools.cache(find)).build()
        return rename(image, f"{REGISTRY}/{target}:{tag}") if tag else image


def demo_stage() -> Image:
    """The stage with the icon model at /models/icons-zimage-tiny."""
    return build(DEMO.target)


def pybase() -> Image:
    """Python 3.11 on Debian, 107 MB: the stand-in for the stage in tests of the operator."""
    with cache.locked() as folder:
        archive = bases.debian_archive(folder)
        return Image(debian.name_of(archive), archive)


def rename(image: Image, name: str) -> Image:
    """The same image under another name."""
    known = oci.read(image.packages).layers if image.packages else ()
    repository, _, tag = name.rpartition(":")
    target = image.archive.with_name(f"{repository.rpartition('/')[2]}-{tag}.tar")
    without = frozenset(layer.digest for layer in known)
    oci.write(image.contents(), name, target, without=without)
    return Image(name, target, image.packages)


class Builder:
    """Builds one recipe in one cache. It asks for an engine only where something must be built."""

    def __init__(self, recipe: Recipe, folder: Path, engine: Callable[[], Engine]) -> None:
        self._recipe = recipe
        self._folder = folder
        self._engine = engine
        self._base = bases.choose(folder, engine)

    def build(self) -> Image:
        packages = self._packages()
        key = self._recipe.key(self._base)
        name = f"{REGISTRY}/{self._recipe.target}:{key}"
        archive = self._folder / f"{self._recipe.target}-{key}.tar"
        if not archive.exists():
            with timed(f"built {name}"):
                self._code(packages, name, archive)
            self._forget()
            if self._recipe.key(self._base) != key:
                logger.warning("files changed while %s was built: building again", name)
                archive.unlink()
                return self.build()
        return Image(name, archive, packages)

    def _packages(self) -> Path:
        """The archive of the base and the packages on it."""
        extra = self._recipe.extra
        key = self._recipe.packages_key(self._base)
        archive = self._folder / f"packages-{extra}-{key}.tar"
        if not archive.exists():
            free_gb = shutil.disk_usage(self._folder).free / 1e9
            if free_gb < NEEDED_GB[extra]:
                logger.warning(
                    "%.0f GB free in %s, and the packages of the %s image take up to %d GB while "
                    "they are built",
                    *(free_gb, self._folder, extra, NEEDED_GB[extra]),
                )
            with timed(f"built the packages of the {extra} image"):
                self._run("deps", f"{REGISTRY}/{extra}-packages:latest", archive)
            self._prune(archive)
        return archive

    def _code(self, packages: Path, name: str, archive: Path) -> None:
        ours = self._folder / f".{self._recipe.target}.{OURS}.tar"
        self._run(self._recipe.target, f"{REGISTRY}/{self._recipe.target}:{OURS}", ours, bare=True)
        lower = oci.read(packages)
        without = frozenset(layer.digest for layer in lower.layers)
        oci.write(rebase(oci.read(ours), lower), name, archive, without=without)
        ours.unlink()

    def _run(self, target: str, name: str, archive: Path, *, bare: bool = False) -> None:
        engine = self._engine()
        bases.provide(self._base, self._folder, engine)
        arguments = {"BASE": self._base} | ({"DEPS": self._base} if bare else {})
        half = archive.with_name(f".{archive.name.lstrip('.')}.half")
        recipe = self._recipe
        engine.build(Build(recipe.dockerfile, recipe.root, target, arguments), name, half)
        half.replace(archive)

    def _forget(self) -> None:
        """Drop all but the newest of our own archives, megabytes each."""
        archives = self._folder.glob(f"{self._recipe.target}-*.tar")
        for old in sorted(archives, key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink()

    def _prune(self, kept: Path) -> None:
        """Drop former packages, gigabytes each, and the images that stand on them."""
        extra = self._recipe.extra
        for old in self._folder.glob(f"packages-{extra}-*.tar"):
            if old != kept:
                old.unlink()
        for recipe in RECIPES.values():
            if recipe.extra == extra:
                for old in self._folder.glob(f"{recipe.target}-*.tar"):
                    old.unlink()


@contextmanager
def timed(what: str) -> Iterator[None]:
    start_s = time.monotonic()
    yield
    logger.info("%5.1f s  %s", time.monotonic() - start_s, what)
