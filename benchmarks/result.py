"""A benchmark's figure, and the file and table of them."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.blocks import Pair, interval


@dataclass(frozen=True, slots=True)
class Result:
    """A median of `n` blocks with its 95 % interval `low` to `high`.

    `baseline` says what ours was measured beside, and its own median. `limit` is the value not to
    exceed, None where no limit is set.
    """

    id: str
    name: str
    value: float
    low: float
    high: float
    unit: str
    n: int
    baseline: str
    limit: float | None = None

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"limit {self.limit:g}"
        figure = f"{self.value:6.3f} [{self.low:.3f}, {self.high:.3f}] {self.unit:6}"
        return f"{self.id:10} {figure} {limit:10} {self.name}; beside {self.baseline}; n={self.n}"


def figure(
    benchmark: str,
    name: str,
    figures: Sequence[float],
    *,
    unit: str,
    baseline: str,
    limit: float | None = None,
) -> Result:
    """One figure a block, in its own unit; `baseline` says what it was measured beside."""
    found = interval(figures)
    return Result(
        id=benchmark,
        name=name,
        value=found.value,
        low=found.low,
        high=found.high,
        unit=unit,
        n=len(figures),
        baseline=baseline,
        limit=limit,
    )


def ratio(
    benchmark: str,
    name: str,
    pairs: Sequence[Pair],
    *,
    baseline: Callable[[float], str],
    limit: float | None,
) -> Result:
    """Ours ÷ baseline; `baseline` puts the other side's median into words."""
    return figure(
        benchmark,
        name,
        [pair.ours / pair.baseline for pair in pairs],
        unit="ratio",
        baseline=baseline(statistics.median(pair.baseline for pair in pairs)),
        limit=limit,
    )


def write(results: Sequence[Result], path: Path) -> None:
    """As a JSON list; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False)
    path.write_text(text + "\n")
