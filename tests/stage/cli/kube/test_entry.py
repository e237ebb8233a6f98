"""Choosing a command, and what goes on to kubectl."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from diffusion_stage.cli import main as diffusion_stage
from diffusion_stage.cli.kube import main, status

ROOT = Path(__file__).parents[4]


def test_the_wheel_brings_the_program_that_kubectl_looks_for():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["kubectl-dstage"].partition(":")
    assert getattr(importlib.import_module(module), function) is main


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["status", "a", "b"], ["restart"]])
def test_wrong_usage_exits_with_2(argv, kubectl, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: kubectl dstage" in capsys.readouterr().err
    assert kubectl.calls() == []


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "  logs      logs of all replicas, or of one" in capsys.readouterr().out


def test_it_is_a_subcommand_of_diffusion_stage_too(kubectl, capsys):
    assert diffusion_stage(["kube", "status", "flux"]) == 0
    assert "art/flux  Ready" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ["status", "flux", "-n", "art", "--context=c", "--kubeconfig", "k"],
        ["-n", "art", "--context=c", "status", "flux", "--kubeconfig=k"],
    ],
)
def test_kubectls_flags_go_with_each_of_its_commands(argv, dstage, kubectl):
    assert dstage(*argv) == 0
    flags = ["--context=c", "--namespace=art", "--kubeconfig=k"]
    assert len(kubectl.calls()) == 5, "the stage, its pods, its Events, two admin ports"
    assert all(call[-3:] == flags for call in kubectl.calls())


def test_without_a_kubectl_it_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setenv("KUBECTL", "/nowhere/kubectl")
    assert main(["status"]) == 2
    assert "no program '/nowhere/kubectl': put kubectl into the PATH" in capsys.readouterr().err


def test_the_kubectl_of_the_path_serves_where_no_other_is_named(kubectl, monkeypatch, capsys):
    monkeypatch.delenv("KUBECTL")
    monkeypatch.setenv("PATH", str(kubectl.program.parent))
    assert main(["status", "flux"]) == 0


def started(*args, before=""):
    """The plug-in as a process of its own."""
    program = f"{before}import sys; from diffusion_stage.cli.kube import main; sys.exit(main())"
    paths = {"PYTHONPATH": str(ROOT / "stage")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program, *args], env=os.environ | paths, **pipes)


def test_a_reader_that_has_enough_ends_it_quietly(kubectl):
    with started("status", "flux") as running:
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


def test_termination_cancels_what_runs_and_raises_nothing_where_it_hits(
    kubectl, dstage, monkeypatch
):
    went_on = False

    async def read_trees(*_):
        nonlocal went_on
        signal.raise_signal(signal.SIGTERM)
        went_on = True
        await asyncio.Event().wait()

    monkeypatch.setattr(status, "read_trees", read_trees)
    assert dstage("status", "flux") == 130
    assert went_on
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_where_interrupts_are_ignored_termination_is_not(kubectl):
    kubectl.on("get", stays="running")
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    with started("status", "flux", before=ignore) as running:
        wait = threading.Event()
        while not kubectl.calls("get"):
            assert not wait.wait(0.02)
        running.terminate()
    assert running.returncode == -signal.SIGTERM
