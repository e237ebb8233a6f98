"""The operator as a process inside the cluster, with the rights that its chart gives it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testcluster import Cluster
from tests.cluster.operator.faults import Faults
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

    def start(
        self,
        code: Path = ROOT / "operator",
        *,
        module: str = "diffusion_operator.handlers",
        **environment: object,
    ) -> None:
        variables = {
            "KUBECONFIG": self._kubeconfig,
            "PYTHONPATH": code,
            "DIFFUSION_OPERATOR_METRICS_PORT": 0,  # there may be several
        } | environment
        kopf = [sys.executable, "-m", "kopf", "run", "-A", "--standalone", "--log-format=json"]
        with self.log.open("a") as log:
            self._process = self._cluster.popen(
                "env",
                *(f"{name}={value}" for name, value in variables.items()),
                *(*kopf, f"--module={module}"),
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Of the operator itself, as this machine counts."""
        assert self._process is not None
        entered = self._process.pid
        [child] = Path(f"/proc/{entered}/task/{entered}/children").read_text().split()
        return int(child)

    def kill(self) -> None:
        """Without a chance to clean up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def end(self) -> None:
        """`kill`, where one runs."""
        if self._process is not None:
            self.kill()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        assert self._process is not None
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


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    return install(cluster)


@pytest.fixture(scope="session")
def running(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    operator = Operator(installed, kubeconfig(installed, tmp_path_factory.mktemp("operator")))
    operator.start()
    yield operator
    operator.kill()


def kubeconfig(cluster: Cluster, folder: Path, server: str | None = None) -> Path:
    """Of the operator's account; `server` is another one that leads to the API server."""
    token = cluster.kubectl("create", "token", ACCOUNT, "--namespace", NAMESPACE).strip()
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    if server is not None:
        config["clusters"][0]["cluster"] = {"server": server}
    path = folder / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    return path


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


@pytest.fixture(scope="module")
def nobody(installed: Cluster, running: Operator) -> Iterator[None]:
    """While a module uses it, only the operators that it starts itself run."""
    running.kill()
    yield
    running.start()


@pytest.fixture(scope="module")
def proxied(
    installed: Cluster, nobody: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Faults, Operator]]:
    """A proxy before the API server, and an operator that knows no other way to it."""
    folder = tmp_path_factory.mktemp("faults")
    faults = Faults(installed, folder)
    yield faults, Operator(installed, kubeconfig(installed, folder, faults.server))
    faults.close()


@pytest.fixture
def faults(proxied: tuple[Faults, Operator]) -> Iterator[Faults]:
    """What stands between the operator `behind` it and the API server; heals after each test."""
    yield proxied[0]
    proxied[0].heal()


@pytest.fixture
def behind(proxied: tuple[Faults, Operator], faults: Faults) -> Iterator[Operator]:
    """An operator behind the proxy, to be started by the test."""
    yield proxied[1]
    proxied[1].end()


@pytest.fixture
def tell() -> Callable[..., None]:
    """Prints a figure for people; `pytest -rP` shows it, and it decides no test."""
    return print
