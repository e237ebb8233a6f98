"""How many CPUs a container may use."""

import os

import pytest

from diffusion_stage.config.cpus import available_cpus


@pytest.fixture(autouse=True)
def _eight_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("limit", "cpus"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1600000 100000", 8),
    ],
)
def test_a_quota_of_cgroup_2_is_rounded_up(tmp_path, limit, cpus):
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert available_cpus(tmp_path) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1", 8), ("300000", 3), ("1000", 1)])
def test_so_is_one_of_cgroup_1(tmp_path, quota, cpus):
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert available_cpus(tmp_path) == cpus


def test_without_control_groups_the_affinity_counts(tmp_path):
    assert available_cpus(tmp_path) == 8
