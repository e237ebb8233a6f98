"""A cluster with the operator's real image, where charts come and go."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import images
from testcluster import Cluster
from tests.cluster.operator.stages import manifest

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "diffusion-operator"
RELEASED = ROOT / "charts" / "released" / "diffusion-operator-0.1.0.tgz"
CRD = "diffusionstages.diffusionstage.io"
RELEASE = "diffusion-operator"
HOME = "diffusion-system"
STAGES = "studio"


class Box:
    """Installs charts on the cluster, with the operator's image as it is here."""

    def __init__(self, cluster: Cluster, operator_image: str) -> None:
        self.cluster = cluster
        repository, _, tag = operator_image.rpartition(":")
        self._image = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}")

    def kubectl(self, *args: str, **options: Any) -> str:
        return self.cluster.kubectl(*args, **options)

    def install(self, chart: Path = CHART, *options: str, release: str = RELEASE) -> None:
        self._deploy("install", chart, *options, release=release)

    def upgrade(self, chart: Path = CHART, *options: str, release: str = RELEASE) -> None:
        self._deploy("upgrade", chart, *options, release=release)

    def _deploy(self, command: str, chart: Path, *options: str, release: str) -> None:
        self.cluster.helm(
            *(command, release, chart, "--namespace", HOME, "--create-namespace", "--wait"),
            *("--timeout", "90s", *self._image, *options),
        )

    def uninstall(self, release: str = RELEASE) -> None:
        self.cluster.helm(
            *("uninstall", release, "--namespace", HOME, "--wait", "--timeout", "60s")
        )

    def log(self) -> str:
        """What the operator's present pod has said."""
        return self.kubectl("logs", f"deploy/{RELEASE}", "--namespace", HOME)

    def names(self, *kinds: str) -> list[str]:
        """The objects of these kinds in all namespaces."""
        listed = self.kubectl("get", ",".join(kinds), "-A", "-o", "name")
        return listed.split()

    def make(self, name: str, *, namespace: str = STAGES, **spec: Any) -> None:
        stage = manifest(name, **spec)
        stage["metadata"]["namespace"] = namespace
        self.cluster.apply(stage)

    def wait(self, name: str, *, namespace: str = STAGES) -> None:
        condition = "--for=condition=Ready"
        self.kubectl("wait", f"dstage/{name}", "-n", namespace, condition, "--timeout=90s")

    def pods(self, namespace: str = STAGES) -> dict[str, Any]:
        """What changes when a pod is replaced or its container restarted."""
        found = json.loads(self.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                [one["containerID"] for one in pod["status"]["containerStatuses"]],
            )
            for pod in found
        }

    def clear(self) -> None:
        """Whatever a test left."""
        for release in self.cluster.helm("list", "-A", "-q").split():
            self.uninstall(release)
        self.kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")
        ours = (HOME, STAGES)
        self.kubectl("delete", "ns", *ours, "--ignore-not-found", "--timeout=90s")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, store="release") as running:
        yield running


@pytest.fixture(scope="package")
def operator_image(cluster: Cluster) -> str:
    image = images.build("operator")
    images.load(cluster, image)
    return image.name


@pytest.fixture
def box(cluster: Cluster, operator_image: str) -> Iterator[Box]:
    """With a namespace for stages, and nothing else."""
    cluster.kubectl("create", "namespace", STAGES)
    made = Box(cluster, operator_image)
    yield made
    made.clear()
