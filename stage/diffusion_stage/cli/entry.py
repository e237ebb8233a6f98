"""Choosing the subcommand; only that one's module is imported."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn, Protocol, cast

from diffusion_stage.errors import ConfigError

EX_USAGE = 2
COMMANDS = {
    "serve": "run a stage: load a model and serve it until SIGTERM",
    "generate": "ask a stage for images and save them",
    "status": "show the replicas of a stage",
    "keys": "make the keys of a client, for stages that speak CURVE",
    "kube": "look at stages of a cluster, and act on them, by kubectl",
}


class Command(Protocol):
    """What a module of this package offers for its subcommand."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int:
        """Returns the exit code."""


class _UsageError(Exception):
    """The arguments are not those of the subcommand."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 2 for wrong usage, of `serve` 64, which is told as the death of a stage is."""
    command, *rest = _split(sys.argv[1:] if argv is None else list(argv))
    module = cast(Command, importlib.import_module(f"diffusion_stage.cli.{command}"))
    parser = _Parser(
        prog=f"diffusion-stage {command}", description=COMMANDS[command], allow_abbrev=False
    )
    module.add_arguments(parser)
    try:
        args = parser.parse_args(rest)
    except _UsageError as error:
        parser.print_usage(sys.stderr)
        if command == "serve":
            return _refuse_to_serve(str(error), rest)
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return EX_USAGE
    return module.run(args)


def _refuse_to_serve(message: str, argv: list[str]) -> int:
    """In a pod nobody sees the usage; the termination message is what the operator shows."""
    from diffusion_stage.cli import serve

    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--termination-log")
    try:
        path = parser.parse_known_args(argv)[0].termination_log
    except _UsageError:
        path = None
    return serve.refuse(ConfigError(f"arguments: {message}"), path)


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
