"""The operator as a process inside the cluster, with the rights that its chart gives it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testcluster import Cluster
from tests.cluster.operator.stages import Stages

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "diffusion-operator"
NAMESPACE = "diffusion-system"
ACCOUNT = "diffusion-operator"


class Operator:
    """One process of the operator at a time; `code` is the folder that it is imported from."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig
        self._process: subprocess.Popen[bytes] | None = None
        self.log = kubeconfig.with_suffix(".log")

    def start(self, code: Path = ROOT / "operator", **settings: str) -> None:
        given = {"KUBECONFIG": self._kubeconfig, "PYTHONPATH": code} | settings
        environment = [f"{name}={value}" for name, value in given.items()]
        kopf = [sys.executable, "-m", "kopf", "run", "-A", "--standalone", "--log-format=json"]
        module = ["--module=diffusion_operator.handlers"]
        with self.log.open("a") as log:
            self._process = self._cluster.popen(
                "env", *environment, *kopf, *module, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Without a chance to clean up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=20)

    def restart(self) -> None:
        self.kill()
        self.start()


def install(cluster: Cluster) -> Cluster:
    """Add the CRD, and the chart's account and roles, but no operator."""
    cluster.kubectl("apply", "-f", str(ROOT / "crds" / "diffusionstages.yaml"))
    cluster.kubectl("wait", "--for=condition=Established", "crd/diffusionstages.diffusionstage.io")
    cluster.kubectl("create", "namespace", NAMESPACE)
    parts = [f"--show-only=templates/{name}.yaml" for name in ("serviceaccount", "rbac")]
    where = ["--namespace", NAMESPACE, "--kube-version", "1.34.4"]
    roles = cluster.helm("template", ACCOUNT, CHART, *where, *parts)
    cluster.kubectl("apply", "-f", "-", stdin=roles)
    return cluster


def operator_of(cluster: Cluster, folder: Path) -> Operator:
    """With the rights that `install` gave; not started."""
    token = cluster.kubectl("create", "token", ACCOUNT, "--namespace", NAMESPACE).strip()
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    return Operator(cluster, path)


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    return install(cluster)


@pytest.fixture(scope="session")
def running(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    operator = operator_of(installed, tmp_path_factory.mktemp("operator"))
    operator.start()
    yield operator
    operator.kill()


@pytest.fixture
def operator(running: Operator) -> Iterator[Operator]:
    """The one that runs; a test that ends it leaves another one running."""
    before = running.log.stat().st_size
    yield running
    said = running.log.read_text()[before:]
    assert "Traceback" not in said, said
    assert "forbidden" not in said, said


@pytest.fixture
def stages(installed: Cluster) -> Iterator[Stages]:
    made = Stages(installed)
    yield made
    made.remove()
