"""The folder that keeps what was built, and the lock on it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images.recipe import ROOT


def folder() -> Path:
    """`.cache/images` of the repository, or what IMAGES_CACHE names."""
    named = os.environ.get("IMAGES_CACHE")
    found = Path(named).resolve() if named else ROOT / ".cache" / "images"
    found.mkdir(parents=True, exist_ok=True)
    return found


@contextmanager
def locked() -> Iterator[Path]:
    """The folder, while no other process builds in it: a second builder waits for the first."""
    top = folder()
    with (top / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield top
