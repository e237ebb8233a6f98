"""`python -m benchmarks.applied N`, inside a cluster: from a stage to its pod, N times.

Each round makes a stage, and then the very StatefulSet that came of it under another name, which is
the least that anybody could do. Then it deletes a child of the stage, and edits it. A line of JSON
a round has the seconds of all four.
"""

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.bare import Bare, Manifest
from benchmarks.crowd import stage

NAMESPACE = "applied"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
STAGES = f"/apis/diffusionstage.io/v1alpha1/namespaces/{NAMESPACE}/diffusionstages"
WORKLOADS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
LIMIT_S = 30.0
QUIET_S = 1.0
POLL_S = 0.002


class Sightings:
    """When each object of a kind was first seen, by its name."""

    def __init__(self, kubeconfig: Path, path: str) -> None:
        self._seen: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        watch = (kubeconfig, path)
        threading.Thread(target=self._watch, args=watch, daemon=True).start()

    def _watch(self, kubeconfig: Path, path: str) -> None:
        for event in Bare(kubeconfig).watch(path):
            if event["type"] == "ADDED":
                self._seen.put((event["object"]["metadata"]["name"], time.perf_counter()))

    def of(self, name: str) -> float:
        """Wait for it; the moments are those of `time.perf_counter`."""
        while True:
            found, moment = self._seen.get(timeout=LIMIT_S)
            if found == name:
                return moment


def plain(workload: Manifest, name: str) -> Manifest:
    """The same without its owner, as anybody could apply it."""
    text = json.dumps({key: workload[key] for key in ("apiVersion", "kind", "spec")})
    found: dict[str, Any] = json.loads(text.replace('"stage-', '"plain-'))
    return found | {"metadata": {"name": name, "namespace": NAMESPACE}}


def deleted_s(client: Bare, services: Sightings, name: str) -> float:
    """Until there is a Service of that name again."""
    began = time.perf_counter()
    client.delete(f"{SERVICES}/{name}")
    made_anew = services.of(name)
    return made_anew - began


def edited_s(client: Bare, name: str) -> float:
    """Until what somebody else put into it is gone."""
    wanted = client.get(f"{SERVICES}/{name}")["spec"]["selector"]
    began = time.perf_counter()
    client.merge(f"{SERVICES}/{name}", {"spec": {"selector": {"diffusionstage.io/stage": "x"}}})
    while client.get(f"{SERVICES}/{name}")["spec"]["selector"] != wanted:
        time.sleep(POLL_S)
    return time.perf_counter() - began


def main() -> None:
    kubeconfig = Path(os.environ["KUBECONFIG"])
    client = Bare(kubeconfig)
    client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    pods, stages, services = (Sightings(kubeconfig, path) for path in (PODS, STAGES, SERVICES))
    time.sleep(QUIET_S)
    for number in range(int(sys.argv[1])):
        manifest = stage(f"stage-{number}")
        manifest["spec"]["replicas"] = 1
        sent = time.perf_counter()
        client.create(STAGES, manifest)
        event, pod = stages.of(f"stage-{number}"), pods.of(f"stage-{number}-0")
        time.sleep(QUIET_S)
        copy = plain(client.get(f"{WORKLOADS}/stage-{number}"), f"plain-{number}")
        asked = time.perf_counter()
        client.apply(f"{WORKLOADS}/plain-{number}", copy, manager="bare")
        direct = pods.of(f"plain-{number}-0") - asked
        facts = {"event_s": pod - event, "request_s": pod - sent, "direct_s": direct}
        services.of(f"stage-{number}")
        facts["deleted_s"] = deleted_s(client, services, f"stage-{number}")
        time.sleep(QUIET_S)
        facts["edited_s"] = edited_s(client, f"stage-{number}")
        print(json.dumps(facts), flush=True)
        time.sleep(QUIET_S)


if __name__ == "__main__":
    main()
