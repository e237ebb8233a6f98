"""Prometheus series of one stage; request ids are never labels."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from diffusion_stage.engine.figures import EngineFigures, EngineLoad, Tally
from diffusion_stage.server.admin import Answer

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class _Engine(Collector):
    """Reads the engine's load and figures at each scrape."""

    def __init__(
        self, load: Callable[[], EngineLoad], figures: Callable[[], EngineFigures | None]
    ) -> None:
        self._load = load
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        load = self._load()
        requests = GaugeMetricFamily("stage_requests", "Live requests by state", labels=["state"])
        for state in ("waiting", "running", "materializing"):
            requests.add_metric([state], getattr(load, state))
        yield requests
        figures = self._figures()
        if figures is not None:
            yield _histogram("stage_queue_seconds", "From arrival to a device", figures.queue)
            yield _histogram("stage_batch_size", "Requests in a step's forward", figures.batch_size)
            yield _histogram("stage_step_seconds", "One step of all that run", figures.step)


def _histogram(name: str, about: str, tally: Tally) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, about, buckets=tally.cumulative(), sum_value=tally.sum)


class Metrics:
    """The series that the front end counts, in a registry of their own."""

    def __init__(
        self,
        load: Callable[[], EngineLoad],
        figures: Callable[[], EngineFigures | None] = lambda: None,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Engine(load, figures))
        self.finished = Counter(
            "stage_requests_finished",
            "Ended requests by outcome: OK, or the error's reason",
            ["outcome"],
            registry=self._registry,
        )
        self.refused = Counter(
            "stage_requests_refused",
            "Requests that were not admitted, by reason",
            ["reason"],
            registry=self._registry,
        )
        self.duration = Histogram(
            "stage_request_seconds",
            "From arrival to the end of successful requests",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.first_step = Histogram(
            "stage_first_step_seconds",
            "From arrival to the end of a request's first step",
            buckets=SECONDS,
            registry=self._registry,
        )
        self.sent_bytes = Counter(
            "stage_output_bytes", "Payload sent to clients", registry=self._registry
        )

    def scrape(self) -> Answer:
        return (
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            generate_latest(self._registry).decode(),
        )
