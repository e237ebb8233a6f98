"""Image stores, kept between starts so that the next start imports nothing.

A containerd root has one owner at a time. Each running cluster takes the first free store of the
name it was given; one more cluster at a time makes one more store.
"""

from pathlib import Path

from testcluster import locks


def take(cache: Path, name: str) -> tuple[Path, int]:
    """A store of one's own, and the lock on it: a descriptor that the caller keeps open."""
    stores = cache / "store"
    number = 0
    while (lock := locks.take(stores / f"{name}-{number}.lock")) is None:
        number += 1
    folder = stores / f"{name}-{number}"
    folder.mkdir(exist_ok=True)
    return folder, lock
