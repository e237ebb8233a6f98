import pytest

from testcluster import RequirementError, requirements
from testcluster.requirements import Requirement

MET = Requirement("there", "is met", lambda: True)
UNMET = Requirement("absent", "is needed for the test", lambda: False)


@pytest.fixture
def one_is_missing(monkeypatch):
    monkeypatch.setattr(requirements, "CLUSTER", (MET, UNMET))
    monkeypatch.setattr(requirements, "IMAGES", ())


def test_nothing_is_installed_where_all_is_there(monkeypatch):
    monkeypatch.setattr(requirements, "CLUSTER", (MET,))
    monkeypatch.setattr(requirements, "IMAGES", (MET,))
    monkeypatch.setenv("PATH", "")
    requirements.install()


@pytest.mark.usefixtures("one_is_missing")
def test_without_apt_the_packages_are_named(monkeypatch):
    monkeypatch.setattr(requirements.shutil, "which", lambda _: None)
    with pytest.raises(RequirementError, match=r"no apt-get here: .* absent"):
        requirements.install()


@pytest.mark.usefixtures("one_is_missing")
def test_without_root_the_command_to_type_is_named(monkeypatch):
    monkeypatch.setattr(requirements.shutil, "which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    with pytest.raises(RequirementError, match="sudo apt-get install absent"):
        requirements.install()


@pytest.mark.usefixtures("one_is_missing")
def test_what_keeps_a_cluster_from_running_says_what_to_do():
    assert any("testcluster install" in line for line in requirements.missing())
