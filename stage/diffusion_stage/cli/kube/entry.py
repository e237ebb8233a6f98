"""Choosing the plug-in's command; only that one's module is imported."""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, cast

from diffusion_stage.cli.kube.errors import KubeError
from diffusion_stage.cli.kube.kubectl import Kubectl, find

PLUGIN = "kubectl dstage"
EX_INTERRUPTED = 130
EX_BROKEN_PIPE = 141
COMMANDS = {
    "status": "stages, their replicas, loads, deaths and Events",
    "logs": "logs of all replicas, or of one",
    "generate": "ask a stage for images from outside the cluster",
    "restart": "replace all replicas, one after the other",
    "suspend": "run no replicas, and keep the stage",
    "resume": "run a suspended stage's replicas again",
}


class Command(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, kubectl: Kubectl, args: argparse.Namespace) -> int:
        """Returns the exit code. Raises KubeError."""


def main(argv: Sequence[str] | None = None) -> int:
    """The program `kubectl-dstage`, which kubectl finds by its name."""
    parser = argparse.ArgumentParser(
        prog=PLUGIN, description="Look at stages of this cluster, and act on them."
    )
    add_arguments(parser)
    return run(parser.parse_args(argv))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} [-h] COMMAND ..."
    commands = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
    parser.epilog = f"commands:\n{commands}"
    parser.set_defaults(prog=parser.prog)
    _add_kubectl_flags(parser)
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="see below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """0 is well, 1 is not ready or failed, 2 is wrong usage or an error of kubectl."""
    module = importlib.import_module(f"diffusion_stage.cli.kube.{args.command}")
    command = cast(Command, module)
    parser = argparse.ArgumentParser(
        prog=f"{args.prog} {args.command}",
        description=COMMANDS[args.command],
        allow_abbrev=False,
        conflict_handler="resolve",  # `generate` takes its namesake's arguments, and changes two
    )
    command.add_arguments(parser)
    _add_kubectl_flags(parser)
    parser.parse_args(args.rest, namespace=args)
    try:
        with _terminated_as_interrupted():
            code = command.run(find(args.context, args.namespace, args.kubeconfig), args)
            sys.stdout.flush()
            return code
    except KubeError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except BrokenPipeError:  # whoever read has enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EX_BROKEN_PIPE


def _add_kubectl_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("passed on to kubectl")
    group.add_argument("-n", "--namespace")
    group.add_argument("--context")
    group.add_argument("--kubeconfig")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM does what SIGINT does here, or its own where SIGINT is ignored."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Raises nothing while an event loop runs, where asyncio's handler of SIGINT cancels its task.

    What is raised wherever the signal hits is lost when that is inside pyzmq: in 6 of 40 tries,
    with 27.3 (`Exception ignored in: zmq.backend.cython._zmq.Frame.__dealloc__`).
    """
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
