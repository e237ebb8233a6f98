"""The product on a real cluster: chart, operator and stage images, a client pod."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import images
from testcluster import Cluster

ROOT = Path(__file__).parents[2]
STAGE = yaml.safe_load((ROOT / "demo" / "stage.yaml").read_text())
CLIENT = yaml.safe_load((ROOT / "demo" / "client.yaml").read_text())


class Product:
    """A cluster with the operator installed; makes stages and asks about them."""

    def __init__(self, cluster: Cluster, stage_image: str) -> None:
        self.cluster = cluster
        self.stage_image = stage_image

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(*args, stdin=stdin)

    def helm(self, *args: str) -> str:
        return self.cluster.helm(*args)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.get(kind, name)

    def kubectl_popen(self, *args: str, **options: Any) -> Any:
        return self.cluster.popen("kubectl", *args, **options)

    def apply_stage(self, name: str, **spec: Any) -> None:
        merged = {**STAGE["spec"], "image": self.stage_image, **spec}
        self.cluster.apply({**STAGE, "metadata": {"name": name}, "spec": merged})

    def in_pod(self, pod: str, program: str) -> str:
        """What a Python program prints inside a stage's container."""
        return self.kubectl("exec", pod, "-c", "stage", "--", "python", "-c", program)

    def workers(self, pod: str) -> list[dict[str, Any]]:
        program = (
            "import asyncio, json\n"
            "from diffusion_stage.client import AsyncStageClient\n"
            "async def main():\n"
            "    async with AsyncStageClient('tcp://127.0.0.1:5555') as client:\n"
            "        print(json.dumps(await client.control('workers')))\n"
            "asyncio.run(main())\n"
        )
        (workers,) = json.loads(self.in_pod(pod, program)).values()
        return list(workers)

    def signal(self, pod: str, pid: int, number: int) -> float:
        """Send a signal inside the pod; returns the time at which it was sent."""
        return float(
            self.in_pod(
                pod, f"import os, time; at = time.time(); os.kill({pid}, {number}); print(at)"
            )
        )

    def termination(self, pod: str, *, restarts: int) -> dict[str, Any] | None:
        """How the stage container ended before its restart number `restarts`, once it did."""
        (status,) = self.get("pod", pod)["status"]["containerStatuses"]
        if status["restartCount"] < restarts and "terminated" not in status["state"]:
            return None
        ended = status["state"].get("terminated") or status["lastState"].get("terminated")
        return ended or None

    def restarts(self, pod: str) -> int:
        (status,) = self.get("pod", pod)["status"]["containerStatuses"]
        return int(status["restartCount"])

    def wait_until_ready(self, name: str, timeout_s: int = 300) -> None:
        self.cluster.kubectl(
            *("wait", f"dstage/{name}", "--for=condition=Ready", f"--timeout={timeout_s}s"),
            timeout_s=timeout_s + 10,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The demo before all clusters: its own takes the image store, which `product` then keeps."""
    items.sort(key=lambda item: (item.path.name != "test_demo.py", "e2e" in item.path.parts))


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    stage, operator = images.demo_stage(), images.build("operator")
    with Cluster(nodes=1, store="product") as cluster:
        images.load(cluster, stage)
        images.load(cluster, operator)
        repository, _, tag = operator.name.rpartition(":")
        cluster.helm(
            *("install", "diffusion-operator", ROOT / "charts" / "diffusion-operator"),
            *("--namespace", "diffusion-system", "--create-namespace", "--wait"),
            *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
        )
        CLIENT["spec"]["containers"][0]["image"] = stage.name
        cluster.apply(CLIENT)
        yield Product(cluster, stage.name)


@pytest.fixture(scope="session")
def icons(product: Product) -> str:
    """The name of a stage with two replicas of two workers each, ready at first."""
    policy = {"hangTimeoutSeconds": 10, "replacePodAfterRestarts": 0}  # deaths are inflicted here
    product.apply_stage("icons", failurePolicy=policy)
    product.wait_until_ready("icons")
    product.kubectl("wait", "pod/painter", "--for=condition=Ready", "--timeout=60s")
    return "icons"


@pytest.fixture
def eventually() -> Callable[..., Any]:
    def wait(check: Callable[[], Any], within_s: float) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := check()):
            assert time.monotonic() < deadline, f"not within {within_s} s"
            time.sleep(0.1)
        return found

    return wait


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a figure where a person reads it, also when the test passes."""
    writer = request.config.get_terminal_writer()
    return lambda text: writer.line(f"\n{text}")
