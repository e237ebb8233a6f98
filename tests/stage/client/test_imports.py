"""The client is small."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "diffusers", "transformers", "kopf", "kubernetes", "pydantic"}


@pytest.mark.parametrize(
    "code",
    [
        "import diffusion_stage.client",
        "import diffusion_stage.cli.generate, diffusion_stage.cli.status",
    ],
)
def test_importing_it_imports_no_heavy_library(code):
    loaded = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert not HEAVY & set(loaded)
