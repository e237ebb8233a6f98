"""Where the cluster's binaries come from: prebuilt ones where a folder is named, else a build."""

import os
from pathlib import Path

from testcluster import layout
from testcluster.errors import BuildError
from testcluster.gobuild import BINARIES, build

VARIABLE = "TESTCLUSTER_BIN"


def provide(given: Path | None = None) -> Path:
    """A folder with every binary: `given`, else the one that TESTCLUSTER_BIN names, else built."""
    named = os.environ.get(VARIABLE)
    folder = given or (Path(named) if named else None)
    if folder is None:
        folder = layout.cache() / "bin"
        build(folder)
        return folder
    missing = [binary.name for binary in BINARIES if not (folder / binary.name).is_file()]
    if missing:
        raise BuildError(f"{folder} lacks {', '.join(missing)} (named by {VARIABLE} or the caller)")
    return folder.resolve()
