"""The plug-in beside a kubectl that answers as a test says."""

import pytest

from diffusion_stage.cli.kube import main
from tests.stage.cli.kube.builders import listed, pod_json, stage_json
from tests.stage.cli.kube.kubectl import FakeKubectl


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Knows one stage, `flux`, of two replicas that serve."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = FakeKubectl(folder)
    fake.on("get diffusionstages.diffusionstage.io flux", stage_json())
    fake.on("get diffusionstages.diffusionstage.io --", listed(stage_json()))
    fake.on("get pods", listed(pod_json(0), pod_json(1)))
    fake.on("get events.events.k8s.io", listed())
    fake.on("get --raw", '{"phase": "serving", "uptime_s": 1.0}')
    monkeypatch.setenv("KUBECTL", str(fake.program))
    return fake


@pytest.fixture
def dstage(kubectl):
    return lambda *args: main([str(each) for each in args])
