"""Choosing the subcommand; only that one's module is imported."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn, Protocol, cast

EX_USAGE = 64  # also ConfigError's: a container with wrong flags says so by its exit code
COMMANDS = {
    "serve": "run a stage: load a model and serve it until SIGTERM",
    "generate": "ask a stage for images and save them",
    "status": "show the replicas of a stage",
}


class Command(Protocol):
    """What a module of this package offers for its subcommand."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int:
        """Returns the exit code."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, command: str) -> None:
        super().__init__(
            prog=f"diffusion-stage {command}", description=COMMANDS[command], allow_abbrev=False
        )
        self._exit_code = EX_USAGE if command == "serve" else 2

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self._exit_code, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; wrong usage raises `SystemExit` with 2, of `serve` with 64."""
    command, *rest = _split(sys.argv[1:] if argv is None else list(argv))
    module = cast(Command, importlib.import_module(f"diffusion_stage.cli.{command}"))
    parser = _Parser(command)
    module.add_arguments(parser)
    return module.run(parser.parse_args(rest))


def _split(argv: list[str]) -> list[str]:
    """`argv` if it starts with a subcommand; help, version and anything else end here."""
    commands = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="diffusion-stage",
        usage="diffusion-stage [-h] [--version] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{commands}",
    )
    parser.add_argument("--version", action="version", version=version("diffusion-stage"))
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="see below")
    parser.parse_args(argv[:1])
    return argv
