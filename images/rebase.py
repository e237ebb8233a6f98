"""Putting the top layers of one image on another, as `crane rebase` does.

The engine builds our code on the bare base, in seconds; here it moves onto the packages. The
result is what building on the packages would give, for the code's layers only add files.
"""

from collections.abc import Sequence
from typing import Any

from images.errors import ArchiveError
from images.oci import Contents


def rebase(top: Contents, lower: Contents) -> Contents:
    """`lower`, with what `top` has on the base that both share, and the settings of `top`.

    Raises `ArchiveError` where they share no base, or where `lower` has settings of its own.
    """
    above, below = top.config["rootfs"]["diff_ids"], lower.config["rootfs"]["diff_ids"]
    shared = _common(above, below)
    if shared == 0:
        raise ArchiveError("the image of the code and that of the packages have no base in common")
    config = {
        **top.config,
        "rootfs": {**top.config["rootfs"], "diff_ids": below + above[shared:]},
        "history": _history(top, lower),
    }
    return Contents(config, lower.layers + top.layers[shared:])


def _history(top: Contents, lower: Contents) -> list[dict[str, Any]]:
    above, below = top.config.get("history", []), lower.config.get("history", [])
    joined: list[dict[str, Any]] = below + above[_common(above, below) :]
    return joined


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
