"""What every test may ask for, and the check that none leaves anything behind."""

import os
from pathlib import Path

# Before torch is imported: the machine's cores are shared with the processes under test, and no
# test asks a hub for anything.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def icons_model() -> Path:
    """The folder of the trained icon model."""
    return ROOT / "models" / "icons-zimage-tiny"
