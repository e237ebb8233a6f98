import mmap
import os

import pytest

from diffusion_stage.worker import leftovers


@pytest.fixture
def segment(tmp_path):
    def make(name="nccl-Ab12Cd"):
        path = tmp_path / name
        path.write_bytes(bytes(4096))
        return path

    return make


def test_a_segment_that_nobody_has_mapped_is_removed(segment, tmp_path):
    path = segment()
    assert leftovers.clear(tmp_path) == ["nccl-Ab12Cd"]
    assert not path.exists()


def test_one_that_a_process_has_mapped_stays_until_it_has_not(segment, tmp_path):
    path = segment()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert leftovers.clear(tmp_path) == []
        assert path.exists()
    assert leftovers.clear(tmp_path) == ["nccl-Ab12Cd"]


def test_other_names_stay(segment, tmp_path):
    path = segment("cupy-1")
    assert leftovers.clear(tmp_path) == []
    assert path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_those_of_others_stay(segment, tmp_path):
    path = segment()
    os.chown(path, 1, 1)
    assert leftovers.clear(tmp_path) == []
    assert path.exists()
