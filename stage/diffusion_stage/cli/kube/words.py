"""Lengths of time and texts from elsewhere, as a terminal shows them (pure)."""

from datetime import datetime

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
NOTHING = "-"


def ago(time: datetime | None, now: datetime) -> str:
    """How long ago, in the two largest units at most; a clock that is behind gives `0s`."""
    return NOTHING if time is None else duration((now - time).total_seconds())


def duration(seconds: float) -> str:
    """As kubectl's ages: 42s, 3m20s, 17m, 5h12m, 3d."""
    left = max(0, int(seconds))
    if left < 2 * MINUTE_S:
        return f"{left}s"
    if left < HOUR_S:
        return _two(left, (MINUTE_S, "m"), (1, "s"), is_coarse=left >= 10 * MINUTE_S)
    if left < 2 * DAY_S:
        return _two(left, (HOUR_S, "h"), (MINUTE_S, "m"), is_coarse=left >= 8 * HOUR_S)
    return f"{left // DAY_S}d"


def _two(left: int, large: tuple[int, str], small: tuple[int, str], *, is_coarse: bool) -> str:
    whole, rest = divmod(left, large[0])
    part = "" if is_coarse or rest < small[0] else f"{rest // small[0]}{small[1]}"
    return f"{whole}{large[1]}{part}"


def plain(text: str) -> str:
    """One line without control characters: what a container says is not obeyed by the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
