"""Operators come and go; pods stay."""

import shutil

import pytest

from tests.cluster.operator.conftest import ROOT
from tests.cluster.operator.stages import until

pytestmark = pytest.mark.cluster


def test_no_pod_is_touched_by_an_operator_that_is_killed_and_started(operator, stages, installed):
    stages.make("steady", replicas=2)
    pods = stages.pods("steady")
    generation = installed.get("sts", "steady")["metadata"]["generation"]
    operator.restart()
    log = operator.log.stat().st_size
    until(lambda: "applied StatefulSet steady" in operator.log.read_text()[log:])
    assert stages.pods("steady") == pods
    assert installed.get("sts", "steady")["metadata"]["generation"] == generation


def test_no_pod_is_touched_by_another_version_that_renders_the_same(
    operator, stages, installed, tmp_path
):
    stages.make("upgraded")
    pods = stages.pods("upgraded")
    shutil.copytree(ROOT / "operator", tmp_path / "operator")
    verdicts = tmp_path / "operator" / "diffusion_operator" / "verdicts.py"
    verdicts.write_text(verdicts.read_text().replace("no replica fails", "as a later version says"))
    operator.kill()
    operator.start(tmp_path / "operator")
    degraded = until(
        lambda: (
            (found := stages.condition("upgraded", "Degraded"))["message"].startswith("as a")
            and found
        )
    )
    assert degraded["status"] == "False"
    assert stages.pods("upgraded") == pods
    operator.restart()
