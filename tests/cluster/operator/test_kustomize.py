"""`config/` for kustomize: what the chart installs, and nothing else."""

import shutil

import pytest
import yaml

from testcluster import binaries
from tests.cluster.operator.conftest import ROOT
from tools import kustomize

pytestmark = pytest.mark.cluster
CONFIG = ROOT / "config"


def built(cluster, folder="default"):
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(CONFIG / folder))))


def test_the_files_are_what_the_chart_renders(cluster):
    on_disk = {
        str(path.relative_to(CONFIG)): path.read_text()
        for path in CONFIG.rglob("*.yaml")
        if path.parent.name != "samples"
    }
    assert on_disk == kustomize.render(binaries.provide() / "helm"), "run: make fix"


def test_kustomize_puts_all_of_it_together(cluster):
    kinds = [one["kind"] for one in built(cluster)]
    for kind in ("Namespace", "CustomResourceDefinition", "ServiceAccount", "Deployment"):
        assert kinds.count(kind) == 1
    assert "helm" not in str(built(cluster)).lower()


def test_another_namespace_reaches_the_binding_too(cluster, tmp_path):
    config = shutil.copytree(CONFIG, tmp_path / "config")
    overlay = {"namespace": "elsewhere", "resources": ["../default"]}
    (config / "own").mkdir()
    (config / "own" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    made = yaml.safe_load_all(cluster.kubectl("kustomize", str(config / "own")))
    [binding] = [one for one in made if one["kind"] == "ClusterRoleBinding"]
    assert [one["namespace"] for one in binding["subjects"]] == ["elsewhere"]


@pytest.mark.parametrize("folder", ["default", "samples"])
def test_the_api_server_takes_it(installed, folder):
    options = ("--dry-run=server", "--server-side", "--force-conflicts", "-k")
    applied = installed.kubectl("apply", *options, str(CONFIG / folder))
    assert len(applied.splitlines()) == len(built(installed, folder))
