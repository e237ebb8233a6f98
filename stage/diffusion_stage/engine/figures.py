"""What the engine counts, for metrics and for `status`."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diffusion_stage.outputs import StepBatch
from diffusion_stage.scheduler.output import NewRequestData

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How many requests wait, run, and are being packed."""

    waiting: int
    running: int
    materializing: int

    @property
    def total(self) -> int:
        return self.waiting + self.running + self.materializing


class Tally:
    """Observed values by bucket; a bucket's bound belongs to it. Written by one thread."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds and how many were up to each, as Prometheus counts them."""
        total, buckets = 0, []
        for bound, count in zip([*self.bounds, "+Inf"], self.counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        return buckets


class EngineFigures:
    """Written by the engine's loop, read by any thread. Times are seconds."""

    def __init__(self) -> None:
        self.queue = Tally(SECONDS)
        self.batch_size = Tally(SIZES)
        self.step = Tally(SECONDS)
        self.sizes: dict[int, int] = {}

    def scheduled(self, new: Iterable[NewRequestData], now: float) -> None:
        """Requests wait no more."""
        for each in new:
            self.queue.add(now - each.request.arrived_at)

    def stepped(self, batches: Iterable[StepBatch]) -> None:
        """Forwards of step mode."""
        for batch in batches:
            self.batch_size.add(batch.size)
            self.step.add(batch.step_ms / 1000)
            self.sizes[batch.size] = self.sizes.get(batch.size, 0) + 1
