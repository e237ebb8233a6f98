import stat
import sys

import pytest

from testcluster import BuildError, gobuild, toolchain
from testcluster.binaries import provide

FAKE_GO = f"""#!{sys.executable}
import pathlib, sys
if sys.argv[1] == "version":
    print("go version go1.99.1 linux/amd64")
else:
    if pathlib.Path(__file__).with_name("broken").exists():
        sys.exit("main.go:1: no such thing")
    pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("built")
    with pathlib.Path(__file__).with_name("calls").open("a") as calls:
        calls.write(sys.argv[-1] + "\\n")
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A folder with a Go that builds nothing, and remembers what it was asked for."""
    folder = tmp_path / "go"
    folder.mkdir()
    command = folder / "go"
    command.write_text(FAKE_GO)
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_all_is_built_once(go, tmp_path):
    gobuild.build(tmp_path / "bin")
    gobuild.build(tmp_path / "bin")
    assert len((go / "calls").read_text().splitlines()) == len(gobuild.BINARIES)
    assert provide(tmp_path / "bin") == tmp_path / "bin"


def test_a_lost_binary_alone_is_built_again(go, tmp_path):
    gobuild.build(tmp_path / "bin")
    (tmp_path / "bin" / "helm").unlink()
    gobuild.build(tmp_path / "bin")
    assert (go / "calls").read_text().splitlines()[-1] == "helm.sh/helm/v3/cmd/helm"


def test_a_changed_source_makes_a_binary_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(gobuild, "MODULES", tmp_path)
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "main.go").write_text("package main")
    tool = gobuild.Binary("tool", ".", "a tool")
    before = tool.digest
    (tmp_path / "tool" / "main.go").write_text("package main // changed")
    assert tool.digest != before


def test_a_failed_build_says_what_the_compiler_said_and_leaves_no_binary(go, tmp_path):
    (go / "broken").touch()
    with pytest.raises(BuildError, match=r"building pause failed(.|\n)*no such thing"):
        gobuild.build(tmp_path / "bin")
    assert not (tmp_path / "bin" / "pause").exists()


def test_an_incomplete_folder_of_prebuilt_binaries_is_refused(tmp_path):
    (tmp_path / "kubebox").touch()
    with pytest.raises(BuildError, match="lacks pause, coredns, helm"):
        provide(tmp_path)


def test_the_newest_go_that_a_module_asks_for_is_required():
    modules = [binary.module for binary in gobuild.BINARIES]
    assert toolchain.required(modules) >= (1, 26)


def test_an_old_go_is_passed_over_for_the_package(go):
    command = go / "go"
    command.write_text(FAKE_GO.replace("go1.99.1", "go1.19.8"))
    (go / "uv").symlink_to("/bin/true")
    found = toolchain.go_command((1, 24))
    assert found == [str(go / "uv"), "tool", "run", "--from", toolchain.PACKAGE, "go"]


def test_a_new_enough_go_is_taken(go):
    assert toolchain.go_command((1, 24, 0)) == [str(go / "go")]
