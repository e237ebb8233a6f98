"""Choosing a subcommand, and wrong usage."""

import json
import sys
from types import ModuleType

import pytest

from diffusion_stage.cli import main


@pytest.fixture
def status(monkeypatch):
    """Stands for the module of the subcommand `status`."""
    module = ModuleType("diffusion_stage.cli.status")
    module.add_arguments = lambda parser: parser.add_argument("--address", required=True)
    module.run = lambda args: 7 if args.address == "flux" else 0
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_the_subcommand_runs_and_gives_the_exit_code(status):
    assert main(["status", "--address", "flux"]) == 7


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["--port"], "argument --port: expected one argument"),
        (["--model", "m", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["--model", "m", "--num-gpu", "2"], "unrecognized arguments: --num-gpu 2"),
    ],
)
def test_wrong_usage_of_serve_ends_as_a_stage_with_a_wrong_configuration(
    wrong, why, tmp_path, capsys
):
    log = tmp_path / "termination-log"
    assert main(["serve", "--termination-log", str(log), *wrong]) == 64
    assert "usage: diffusion-stage serve" in capsys.readouterr().err
    last_words = json.loads(log.read_text())
    assert (last_words["reason"], last_words["exitCode"]) == ("ConfigInvalid", 64)
    assert why in last_words["msg"]


@pytest.mark.parametrize("wrong", [["generate"], ["status", "--nonsense"]])
def test_other_wrong_usage_exits_with_2(wrong, capsys):
    assert main(wrong) == 2
    assert f"usage: diffusion-stage {wrong[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [[], ["nonsense"]])
def test_without_a_subcommand_there_is_nothing_to_do(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert "usage: diffusion-stage [-h] [--version] COMMAND" in capsys.readouterr().err


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
