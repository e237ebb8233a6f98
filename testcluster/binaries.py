"""The cluster's binaries: prebuilt ones where a folder is named, else built from ./build."""

import os
from pathlib import Path

from testcluster.errors import BuildError

NAMES = ("kubebox", "coredns", "helm", "pause")
VARIABLE = "TESTCLUSTER_BIN"


def provide(given: Path | None = None) -> Path:
    """A folder with every binary."""
    named = os.environ.get(VARIABLE)
    folder = given or (Path(named) if named else None)
    if folder is None:
        raise BuildError("no")
    missing = [name for name in NAMES if not (folder / name).is_file()]
    if missing:
        raise BuildError(f"{folder} lacks {', '.join(missing)}")
    return folder.resolve()
