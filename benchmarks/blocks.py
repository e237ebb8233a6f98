"""Two sides measured in turn, so that what disturbs the machine disturbs both."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the 95 % interval in which it lies, by bootstrap over the blocks."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's figure of each side."""

    ours: float
    baseline: float


def alternate(
    ours: Callable[[], float], baseline: Callable[[], float], *, blocks: int
) -> list[Pair]:
    """Each block measures both sides once; the side that begins changes from block to block."""
    pairs = []
    for block in range(blocks):
        if block % 2 == 0:
            first = ours()
            pairs.append(Pair(ours=first, baseline=baseline()))
        else:
            first = baseline()
            pairs.append(Pair(ours=ours(), baseline=first))
    return pairs


def median_of(measure: Callable[[], float], repeats: int) -> Callable[[], float]:
    """A side whose figure is the median of several measurements."""
    return lambda: statistics.median(measure() for _ in range(repeats))


def interval(figures: Sequence[float]) -> Interval:
    """The same figures give the same interval: the resampling has a fixed seed."""
    draw = random.Random(0)
    medians = [statistics.median(draw.choices(figures, k=len(figures))) for _ in range(RESAMPLES)]
    low, *_, high = statistics.quantiles(medians, n=40)  # 2.5 % and 97.5 %
    return Interval(value=statistics.median(figures), low=low, high=high)
