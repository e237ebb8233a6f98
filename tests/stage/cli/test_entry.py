"""Choosing a subcommand, and wrong usage."""

import sys
from types import ModuleType

import pytest

from diffusion_stage.cli import main


@pytest.fixture
def serve(monkeypatch):
    """Stands for the module of the subcommand `serve`."""
    module = ModuleType("diffusion_stage.cli.serve")
    module.add_arguments = lambda parser: parser.add_argument("--model", required=True)
    module.run = lambda args: 7 if args.model == "m" else 0
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_the_subcommand_runs_and_gives_the_exit_code(serve):
    assert main(["serve", "--model", "m"]) == 7


@pytest.mark.parametrize("wrong", [[], ["--port"], ["--model", "m", "--nonsense"]])
def test_wrong_usage_of_serve_exits_as_a_wrong_configuration_does(serve, wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *wrong])
    assert ended.value.code == 64
    assert "usage: diffusion-stage serve" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [[], ["nonsense"], ["generate"], ["status", "--nonsense"]])
def test_other_wrong_usage_exits_with_2(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert "usage: diffusion-stage" in capsys.readouterr().err


def test_help_names_the_subcommands(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "status    show the replicas of a stage" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.count(".") == 2


@pytest.mark.parametrize("command", ["generate", "status"])
def test_a_malformed_address_is_refused_with_what_is_allowed(command, capsys, tmp_path):
    extra = ["--prompt", "a", "--out", str(tmp_path)] if command == "generate" else []
    assert main([command, "--address", "localhost:5555", *extra]) == 2
    assert "'localhost:5555'; allowed: tcp://HOST:PORT" in capsys.readouterr().err
