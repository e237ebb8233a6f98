"""The repository's own rules: where packages lie."""

import operator
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_operator_folder_is_no_package():
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow the standard library"


def test_the_operator_module_is_the_standard_librarys():
    assert operator.add(1, 2) == 3
    assert Path(operator.__file__).parent != ROOT


@pytest.mark.parametrize(
    "modules",
    [
        "diffusion_stage.cli.serve, diffusion_stage.server.proc",
        "diffusion_stage.executor.multiproc",
        "diffusion_operator.handlers",
    ],
)
def test_stage_process_and_operator_import_no_torch(modules):
    code = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {"torch", "diffusers", "transformers"}.isdisjoint(loaded)
