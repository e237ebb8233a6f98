"""Writes `config/`, what the chart installs by default, for kustomize.

`python -m tools.kustomize` rewrites all but `config/samples`, which are written by hand.
"""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from testcluster import binaries

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "config"
CHART = ROOT / "charts" / "diffusion-operator"
CRD = CHART / "crds" / "diffusionstages.yaml"
NAME = "diffusion-operator"
NAMESPACE = "diffusion-system"
KUBERNETES = "1.34.0"  # that a helm built from source assumes is older than the chart allows
HEAD = "# Made from the chart by `make fix`.\n"
HELMS_LABEL = "helm.sh/chart"
MANAGER = "app.kubernetes.io/managed-by"
TIMEOUT_S = 60


def render(helm: Path) -> dict[str, str]:
    """The files' contents by their paths below `config/`. `helm` is the program."""
    made = _documents(helm)
    manager = [one for one in made if one["kind"] == "Deployment"]
    return {
        "crd/diffusionstages.yaml": CRD.read_text(),
        "crd/kustomization.yaml": _kustomization(resources=["diffusionstages.yaml"]),
        "rbac/rbac.yaml": _dump(*(one for one in made if one not in manager)),
        "rbac/kustomization.yaml": _kustomization(resources=["rbac.yaml"]),
        "manager/manager.yaml": _dump(*manager),
        "manager/kustomization.yaml": _kustomization(resources=["manager.yaml"]),
        "default/namespace.yaml": _dump(_namespace()),
        "default/kustomization.yaml": _kustomization(
            namespace=NAMESPACE, resources=["namespace.yaml", "../crd", "../rbac", "../manager"]
        ),
    }


def _documents(helm: Path) -> list[dict[str, Any]]:
    options = (f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}", "--no-hooks")
    command = [str(helm), "template", NAME, str(CHART), *options]
    text = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    ).stdout
    made = [one for one in yaml.safe_load_all(text) if one]
    for one in made:
        _relabel(one["metadata"])
        if "template" in one.get("spec", {}):
            _relabel(one["spec"]["template"]["metadata"])
    return made


def _relabel(metadata: dict[str, Any]) -> None:
    """Helm would take what has its labels for a part of a release."""
    del metadata["labels"][HELMS_LABEL]
    metadata["labels"][MANAGER] = "kustomize"


def _namespace() -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels},
    }


def _kustomization(**fields: Any) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _dump(head | fields)


def _dump(*documents: dict[str, Any]) -> str:
    return HEAD + yaml.safe_dump_all(documents, sort_keys=False, width=100)


def main() -> None:
    """Rewrites the files in place."""
    for path, text in render(binaries.provide() / "helm").items():
        target = CONFIG / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()
