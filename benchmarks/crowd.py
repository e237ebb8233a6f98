"""`python -m benchmarks.crowd N`, inside a cluster: N stages at once, and how long until rendered.

They have no replicas, so that what is measured is the operator and not a node. Each line that comes
out is JSON. Every line that comes in asks for the reads of one resync; at the end the crowd goes.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from benchmarks.bare import Bare, Manifest

THREADS = 4
POLL_S = 0.25
LIMIT_S = 600.0
LABEL = "diffusionstage.io%2Fstage"


class Crowd:
    """Stages in a namespace of their own; `client` is used by one thread only."""

    def __init__(self, kubeconfig: Path, size: int) -> None:
        self._kubeconfig = kubeconfig
        self._client = Bare(kubeconfig)
        self._size = size
        self._namespace = f"crowd-{size}"
        stages = self.path("apis/diffusionstage.io/v1alpha1", "diffusionstages")
        self._stages = stages
        self._children = {  # where they are listed, and how many each stage has
            self.path("apis/apps/v1", "statefulsets"): 1,
            self.path("apis/policy/v1", "poddisruptionbudgets"): 1,
            self.path("api/v1", "services"): 2,
        }

    def path(self, group: str, plural: str) -> str:
        return f"/{group}/namespaces/{self._namespace}/{plural}"

    def make(self) -> None:
        """Return when the API server has them all."""
        self._client.create("/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        makers = [threading.Thread(target=self._make, args=(n,)) for n in range(THREADS)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()

    def _make(self, first: int) -> None:
        client = Bare(self._kubeconfig)
        for number in range(first, self._size, THREADS):
            client.create(self._stages, stage(f"stage-{number}"))

    def wait_for_children(self) -> None:
        """Every child of every stage exists."""
        for path, each in self._children.items():
            while self._count(path) < each * self._size:
                time.sleep(POLL_S)

    def wait_for_status(self) -> None:
        """Every stage says that it is settled."""
        deadline = time.monotonic() + LIMIT_S
        while sum(map(is_settled, self._client.get(self._stages)["items"])) < self._size:
            if time.monotonic() > deadline:
                raise TimeoutError(f"stages not settled in {LIMIT_S:g} s")
            time.sleep(POLL_S * 4)

    def read(self) -> float:
        """What the operator reads in one resync; gives the core-seconds of this process."""
        before = time.process_time()
        pods = self.path("api/v1", "pods")
        for number in range(self._size):
            name = f"stage-{number}"
            self._client.get(f"{self._stages}/{name}")
            for path in (*self._children, pods):
                self._client.get(f"{path}?labelSelector={LABEL}%3D{name}")
        return time.process_time() - before

    def remove(self) -> None:
        client = Bare(self._kubeconfig)  # the API server ends connections that are long idle
        client.delete(self._stages)
        client.delete(f"/api/v1/namespaces/{self._namespace}")

    def _count(self, path: str) -> int:
        """How many objects there are, without reading them all."""
        found = self._client.get(f"{path}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


def stage(name: str) -> Manifest:
    """The least that a manifest can say."""
    return {
        "apiVersion": "diffusionstage.io/v1alpha1",
        "kind": "DiffusionStage",
        "metadata": {"name": name},
        "spec": {"image": "image:1", "model": {"uri": "/models/m"}, "replicas": 0},
    }


def is_settled(one: Manifest) -> bool:
    conditions = {c["type"]: c["status"] for c in one.get("status", {}).get("conditions", [])}
    return conditions.get("Progressing") == "False"


def say(**facts: float) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    crowd = Crowd(Path(os.environ["KUBECONFIG"]), int(sys.argv[1]))
    started = time.perf_counter()
    crowd.make()
    say(made_s=time.perf_counter() - started)
    crowd.wait_for_children()
    say(rendered_s=time.perf_counter() - started)
    crowd.wait_for_status()
    say(reported_s=time.perf_counter() - started)
    for _ in sys.stdin:
        say(cpu_s=crowd.read())
    crowd.remove()


if __name__ == "__main__":
    main()
