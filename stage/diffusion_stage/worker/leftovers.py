"""Names in shared memory that a killed process group left behind.

A worker that is killed cannot unlink NCCL's segments, and a pod's `/dev/shm` outlives its
containers: restarts in place would fill it (https://github.com/llm-d/llm-d/issues/352).
"""

import os
from pathlib import Path

SHARED = Path("/dev/shm")  # where NCCL makes them, whatever TMPDIR says
PATTERN = "nccl-*"


def clear(folder: Path = SHARED) -> list[str]:
    """Remove the segments of this user that no process has mapped; gives their names."""
    ours = [path for path in folder.glob(PATTERN) if _is_ours(path)]
    mapped = _mapped() if ours else ""
    left = [path for path in ours if str(path) not in mapped]
    for path in left:
        path.unlink(missing_ok=True)
    return sorted(path.name for path in left)


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:  # its owner was faster
        return False


def _mapped() -> str:
    """The maps of all processes that this one can look into; a user's own are among them."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            found.append(maps.read_text(errors="replace"))
        except OSError:  # it has ended, or is another user's
            continue
    return "\n".join(found)
