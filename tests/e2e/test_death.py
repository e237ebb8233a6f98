"""Deaths of real stages in real pods, from the signal to what `kubectl get` says."""

import json
import signal
import statistics
import threading
import time

import pytest

from demo.paint import paint
from icons.prompts import PROMPTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

PARAMS = {"height": 64, "width": 64, "num_inference_steps": 100, "guidance_scale": 2.0}


class Load(threading.Thread):
    """Four requests at a time from the client pod, one for each worker, until they are done."""

    def __init__(self, product, first):
        super().__init__()
        self.at_work = threading.Event()
        self.answers = None
        self.replicas = frozenset()
        self._product, self._first = product, first

    def run(self):
        self.answers = paint(
            self._product, PROMPTS[:4], first=self._first, params=PARAMS, on_event=self._see
        )

    def _see(self, answers, _event):
        if len(answers.steps) == 4:
            self.replicas = frozenset(answers.workers)
            self.at_work.set()


def wide(product, name):
    return product.kubectl("get", "dstage", name, "-o", "wide")


def is_unready(product, pod):
    conditions = product.get("pod", pod)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] != "True" for c in conditions)


@pytest.mark.slow
def test_a_killed_worker_is_seen_everywhere(product, icons, eventually, tell):
    medians = _kill(product, 3, eventually, tell)
    assert max(medians.values()) <= 10


@pytest.mark.slow
def test_a_killed_worker_is_seen_in_time(product, icons, eventually, tell):
    medians = _kill(product, 10, eventually, tell)
    assert medians["client"] <= 1
    assert medians["unready"] <= 2
    assert medians["ended"] <= 10
    assert medians["kubectl"] <= 10


def _kill(product, kills, eventually, tell):
    """Median seconds after the signal, by who knows of it."""
    figures = [
        _kill_one(product, f"icons-{n % 2}", 1000 + 10 * n, eventually) for n in range(kills)
    ]
    names = ("client", "unready", "ended", "kubectl")
    medians = dict(zip(names, map(statistics.median, zip(*figures, strict=True)), strict=True))
    tell(f"seconds after SIGKILL, medians of {kills}: {medians}")
    return medians


def _load(product, pod, first):
    """Work for every worker; a client that DNS told of one replica alone is let go."""
    for attempt in range(10):
        load = Load(product, first=first + 100 * attempt)
        load.start()
        assert load.at_work.wait(120)
        if pod in load.replicas:
            return load
        load.join()
    raise AssertionError(f"{pod} gets no requests")


def _kill_one(product, pod, first, eventually):
    """Seconds until the client, the pod's readiness, its container and kubectl know."""
    restarts = product.restarts(pod)
    worker = product.workers(pod)[1]
    load = _load(product, pod, first)
    killed_at = product.signal(pod, worker["pid"], signal.SIGKILL)
    eventually(lambda: is_unready(product, pod), 10)
    unready_s = time.time() - killed_at
    ended = eventually(lambda: product.termination(pod, restarts=restarts + 1), 10)
    ended_s = time.time() - killed_at
    eventually(lambda: pod in wide(product, "icons"), 10)
    status_s = time.time() - killed_at
    load.join()
    said = json.loads(ended["message"])
    assert ended["exitCode"] == 71
    assert (said["reason"], said["rank"], said["signal"]) == ("WorkerDied", 1, 9)
    line = wide(product, "icons")
    assert "WorkerDied" in line
    assert "71" in line
    assert not load.answers.failed
    assert load.answers.lost == load.answers.duplicated == 0
    client_s = min(event["at"] for event in load.answers.failures) - killed_at
    product.wait_until_ready("icons")
    return client_s, unready_s, ended_s, status_s


@pytest.mark.slow
def test_a_stopped_worker_ends_as_a_hang(product, icons, eventually):
    before = product.restarts("icons-0")
    worker = product.workers("icons-0")[0]
    product.signal("icons-0", worker["pid"], signal.SIGSTOP)
    ended = eventually(lambda: product.termination("icons-0", restarts=before + 1), 40)
    assert ended["exitCode"] == 73
    assert json.loads(ended["message"])["reason"] == "Hang"
    product.wait_until_ready(icons)


@pytest.mark.slow
def test_deleting_a_pod_under_load_loses_no_request(product, icons):
    load = Load(product, first=2000)
    load.start()
    assert load.at_work.wait(120)
    product.kubectl("delete", "pod", "icons-1", "--wait=false")
    load.join()
    assert not load.answers.failed
    assert load.answers.lost == load.answers.duplicated == 0
    assert all(event["attempts"] == 1 for event in load.answers.done), "accepted, so answered there"
    product.wait_until_ready(icons)


def test_a_missing_model_says_what_was_looked_for_in_kubectl_get(product, eventually):
    product.apply_stage("typo", model={"uri": "/models/icons-zimage-tony"}, replicas=1)
    line = eventually(
        lambda: (found := wide(product, "typo")) and "ModelUnavailable" in found and found, 60
    )
    assert "66" in line
    said = product.kubectl("describe", "dstage", "typo")
    assert "/models/icons-zimage-tony/model_index.json" in said
    assert "icons-zimage-tiny" in said, "what there is instead"
    product.kubectl("delete", "dstage", "typo")
