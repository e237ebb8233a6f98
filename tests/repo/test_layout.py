"""The repository's own rules: where packages lie."""

import operator
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_operator_folder_is_no_package():
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow the standard library"


def test_the_operator_module_is_the_standard_librarys():
    assert operator.add(1, 2) == 3
    assert Path(operator.__file__).parent != ROOT


def test_importing_the_packages_imports_no_heavy_library():
    code = "import diffusion_operator, diffusion_stage, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"torch", "diffusers", "kubernetes", "kopf"} & set(loaded)
