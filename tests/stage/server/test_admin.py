"""The admin port over real HTTP."""

import http.client
import json
import urllib.error
import urllib.request

import pytest

from diffusion_stage.engine.figures import EngineLoad
from diffusion_stage.server.admin import AdminServer, document, probe
from diffusion_stage.server.metrics import Metrics


def get(server, path):
    """Status code, content type and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture
def verdict():
    return [True, "serving"]


@pytest.fixture
def metrics():
    return Metrics(lambda: EngineLoad(waiting=3, running=2, materializing=1))


@pytest.fixture
def server(verdict, metrics):
    routes = {
        "/livez": probe(lambda: tuple(verdict)),
        "/status": document(lambda: {"name": "stage-0"}),
        "/metrics": metrics.scrape,
        "/broken": document(lambda: {}["a bug"]),
    }
    server = AdminServer("127.0.0.1", 0, routes)
    server.start()
    yield server
    server.stop()


def test_a_probe_says_yes_or_no_and_why(server, verdict):
    assert get(server, "/livez") == (200, "text/plain; charset=utf-8", "serving\n")
    verdict[:] = [False, "dead: Hang: no step"]
    assert get(server, "/livez")[::2] == (503, "dead: Hang: no step\n")


def test_a_query_is_left_out_of_the_path(server):
    assert get(server, "/livez?verbose")[0] == 200


def test_a_document_is_json(server):
    code, kind, body = get(server, "/status")
    assert (code, kind, json.loads(body)) == (200, "application/json", {"name": "stage-0"})


def test_an_unknown_path_is_told_which_there_are(server):
    code, _, body = get(server, "/healthz")
    assert (code, body) == (404, "there are /livez, /status, /metrics, /broken\n")


def test_an_error_in_one_route_leaves_the_others_alone(server, capfd):
    with pytest.raises(http.client.RemoteDisconnected):
        get(server, "/broken")
    assert get(server, "/livez")[0] == 200
    assert "KeyError: 'a bug'" in capfd.readouterr().err


def test_metrics_are_in_the_format_that_scrapers_read(server, metrics):
    metrics.finished.labels("OK").inc()
    metrics.refused.labels("INVALID_ARGUMENT").inc(2)
    metrics.duration.observe(0.3)
    code, kind, body = get(server, "/metrics")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = body.splitlines()
    assert 'stage_requests{state="waiting"} 3.0' in lines
    assert 'stage_requests{state="materializing"} 1.0' in lines
    assert 'stage_requests_finished_total{outcome="OK"} 1.0' in lines
    assert 'stage_requests_refused_total{reason="INVALID_ARGUMENT"} 2.0' in lines
    assert 'stage_request_seconds_bucket{le="0.5"} 1.0' in lines
