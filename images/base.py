"""Which base image the images of this machine stand on."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from images import debian
from images.engine import Engine

PUBLIC = "docker.io/library/python:3.11-slim"

logger = logging.getLogger(__name__)


def choose(cache: Path, engine: Callable[[], Engine]) -> str:
    """A reference: IMAGES_BASE, else the public image, else one made of Debian packages.

    The choice is kept in `cache`: where no registry answers, asking may take a minute.
    """
    named = os.environ.get("IMAGES_BASE")
    if named:
        return named
    kept = cache / "base"
    if not kept.exists():
        kept.write_text(_choose(cache, engine()))
    return kept.read_text()


def provide(reference: str, cache: Path, engine: Engine) -> None:
    """Make `reference` known to the engine."""
    if reference.startswith(debian.REPOSITORY):
        engine.load(debian_archive(cache), reference)


def debian_archive(cache: Path) -> Path:
    """A complete archive of Debian's Python, made at the first call."""
    archive = cache / "debian.tar"
    if not archive.exists():
        logger.info("making a base image of Debian packages (half a minute)")
        debian.make(cache)
    return archive


def _choose(cache: Path, engine: Engine) -> str:
    if engine.pull(PUBLIC):
        return PUBLIC
    logger.warning("%s cannot be pulled: Debian packages take its place", PUBLIC)
    return debian.name_of(debian_archive(cache))
