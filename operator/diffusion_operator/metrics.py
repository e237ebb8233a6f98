"""The operator's metrics: how stages stand, and how it does itself.

The only module that knows prometheus_client. What is told of stages is kept as one small record
for each and written out only when asked for: 500 stages would be 10,000 objects of the library.
"""

import threading
import time
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from diffusion_operator.api import Stage
from diffusion_operator.failures import Failure
from diffusion_operator.manifest import Manifest

STAGE = ("namespace", "stage")
PASS_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """Filled by the reconciler and the queue; read by whoever scrapes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stages = _Stages()
        self._last_pass_at = time.monotonic()
        self.registry.register(self._stages)
        self._passes = Histogram(
            "diffusionstage_reconcile_seconds",
            "How long passes took.",
            buckets=PASS_BUCKETS_S,
            registry=self.registry,
        )
        self._errors = Counter(
            "diffusionstage_reconcile_errors",
            "Passes that failed and are repeated.",
            registry=self.registry,
        )
        Gauge(
            "diffusionstage_last_pass_age_seconds",
            "Since the last pass ended, well or not.",
            registry=self.registry,
        ).set_function(self.last_pass_age_s)
        self._deaths = Counter(
            "diffusionstage_engine_deaths",
            "Deaths of replicas since the operator started.",
            (*STAGE, "reason", "exit_code"),
            registry=self.registry,
        )

    def set_stage(self, stage: Stage, status: Manifest) -> None:
        """What the status says now."""
        self._stages.records[stage.namespace, stage.name] = (
            tuple((one["type"], one["status"]) for one in status["conditions"]),
            tuple(one["state"] for one in status["replicaStatuses"]),
            status["restarts"]["budgetRemaining"],
        )

    def forget_stage(self, namespace: str, name: str) -> None:
        self._stages.records.pop((namespace, name), None)

    def count_death(self, stage: Stage, failure: Failure) -> None:
        about = (stage.namespace, stage.name, failure.reason, str(failure.exit_code))
        self._deaths.labels(*about).inc()

    def count_pass(self, seconds: float, *, has_failed: bool) -> None:
        self._last_pass_at = time.monotonic()
        self._passes.observe(seconds)
        if has_failed:
            self._errors.inc()

    def last_pass_age_s(self) -> float:
        """Since the last pass ended, well or not; since the start before the first."""
        return time.monotonic() - self._last_pass_at


class MetricsServer:
    """`GET /metrics` from a thread of its own, until closed."""

    def __init__(self, metrics: Metrics, port: int) -> None:
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(port, registry=metrics.registry)

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_Record = tuple[tuple[tuple[str, str], ...], tuple[str, ...], int]


class _Stages(Collector):
    def __init__(self) -> None:
        self.records: dict[tuple[str, str], _Record] = {}

    def collect(self) -> Iterator[Metric]:
        conditions = GaugeMetricFamily(
            "diffusionstage_condition",
            "1 for the status that each condition has.",
            labels=(*STAGE, "type", "status"),
        )
        replicas = GaugeMetricFamily(
            "diffusionstage_replicas", "Replicas by state.", labels=(*STAGE, "state")
        )
        budget = GaugeMetricFamily(
            "diffusionstage_restart_budget_remaining",
            "Deaths left to the replica that has fewest.",
            labels=STAGE,
        )
        for stage, (found, states, remaining) in list(self.records.items()):
            for about in found:
                conditions.add_metric((*stage, *about), 1)
            for state in sorted(set(states)):
                replicas.add_metric((*stage, state), states.count(state))
            budget.add_metric(stage, remaining)
        yield from (conditions, replicas, budget)
