import pytest

from testcluster.__main__ import parser, root, split


@pytest.mark.parametrize(
    ("given", "ours", "theirs"),
    [
        ("up --nodes 2", "up --nodes 2", ""),
        ("kubectl get pods -A", "kubectl", "get pods -A"),
        ("kubectl -n kube-system get pods", "kubectl", "-n kube-system get pods"),
        ("kubectl --name two get pods --name x", "kubectl --name two", "get pods --name x"),
        ("exec --root=/r -- sh -c true", "exec --root=/r", "sh -c true"),
        ("helm --help", "helm --help", ""),
        ("helm -- --help", "helm", "--help"),
        ("", "", ""),
    ],
)
def test_what_follows_a_passed_on_command_is_its_own(given, ours, theirs):
    assert split(given.split()) == (ours.split(), theirs.split())


def test_a_name_is_a_folder_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TESTCLUSTER_CACHE", str(tmp_path))
    assert root(parser().parse_args(["down", "--name", "two"])) == tmp_path / "clusters" / "two"


def test_a_folder_wins_over_a_name(tmp_path):
    assert root(parser().parse_args(["down", "--root", str(tmp_path)])) == tmp_path
