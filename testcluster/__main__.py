"""The test cluster as a command: `python -m testcluster up`, then `kubectl`, `exec`, `down`."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from testcluster import layout, requirements
from testcluster.binaries import provide
from testcluster.cluster import Cluster
from testcluster.errors import ClusterError, StartError
from testcluster.leftovers import leftovers

PASSING = ("exec", "kubectl", "helm")  # what follows these and their own options is not ours
OWN_OPTIONS = ("--name", "--root", "-h", "--help")
DESCRIPTION = "A real Kubernetes cluster on this machine, in namespaces of its own."


def main(arguments: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    ours, theirs = split(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(ours)
    options.command = theirs
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except ClusterError as error:
        print(f"testcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those of a command that is passed on, whatever they look like."""
    ours, theirs = list(arguments[:1]), list(arguments[1:])
    if ours and ours[0] not in PASSING:
        return [*ours, *theirs], []
    while theirs and theirs[0].partition("=")[0] in OWN_OPTIONS:
        takes_value = theirs[0] in ("--name", "--root")
        count = 2 if takes_value else 1
        ours, theirs = ours + theirs[:count], theirs[count:]
    return ours, theirs[1:] if theirs[:1] == ["--"] else theirs


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m testcluster", description=DESCRIPTION)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--name", default="default", help="of several clusters (default)")
        command.add_argument("--root", type=Path, help="the cluster's folder, instead of --name")
        return command

    start = add("up", up)
    start.add_argument("--nodes", type=int, default=1, help="0 to 9; 0 is an API server alone")
    start.add_argument("--gpus", type=int, default=8, help="nvidia.com/gpu that each node claims")
    add("down", down)
    add("status", status)
    add("load", load).add_argument("archive", type=Path, nargs="+")
    for name, run in (("exec", execute), ("kubectl", kubectl), ("helm", helm)):
        add(name, run)
    add("install", install)
    add("build", build)
    return top


def root(options: argparse.Namespace) -> Path:
    given: Path | None = options.root
    return given.resolve() if given else layout.cache() / "clusters" / str(options.name)


def attach(options: argparse.Namespace) -> Cluster:
    return Cluster.attach(root(options))


def up(options: argparse.Namespace) -> int:
    """start a cluster in the background"""
    lacking = requirements.missing()
    if lacking:
        raise StartError("; ".join(lacking))
    folder = root(options)
    cluster = Cluster(folder, nodes=options.nodes, gpus=options.gpus)
    cluster.start()
    cluster.keep()
    where = f"--root {folder}" if options.root else f"--name {options.name}"
    prefix = f"python -m testcluster {{}} {where}"
    print(f"try   {prefix.format('kubectl')} get nodes")
    print(f"      {prefix.format('exec')} bash")
    print(f"end   {prefix.format('down')}")
    return 0


def down(options: argparse.Namespace) -> int:
    """end it; nothing of it stays"""
    cluster = Cluster.last(root(options))
    cluster.stop()
    left = leftovers(cluster.id)
    for line in left:
        print(f"left behind: {line}", file=sys.stderr)
    return 1 if left else 0


def status(options: argparse.Namespace) -> int:
    """say whether it is up, and what its nodes say"""
    print(attach(options).kubectl("get", "nodes,pods", "--all-namespaces", "-o", "wide"), end="")
    return 0


def load(options: argparse.Namespace) -> int:
    """import images, given as OCI archives, into every node"""
    cluster = attach(options)
    for archive in options.archive:
        cluster.load_image(archive)
    return 0


def execute(options: argparse.Namespace) -> int:
    """run a command inside it, with kubectl and helm in the PATH"""
    return _become(options, *options.command)


def kubectl(options: argparse.Namespace) -> int:
    """its kubectl: everything after the word is kubectl's"""
    return _become(options, "kubectl", *options.command)


def helm(options: argparse.Namespace) -> int:
    """its helm: everything after the word is helm's"""
    return _become(options, "helm", *options.command)


def _become(options: argparse.Namespace, *command: str) -> int:
    """Replace this process, so that signals and the exit code are the command's own."""
    if not command:
        raise StartError("no command is given")
    cluster = attach(options)
    line = cluster.command(*command)
    os.execvpe(line[0], line, cluster.environment())


def install(_: argparse.Namespace) -> int:
    """install the Debian packages that are missing (root)"""
    requirements.install()
    return 0


def build(_: argparse.Namespace) -> int:
    """build the cluster's binaries, or name the folder of the prebuilt ones"""
    print(provide())
    return 0


if __name__ == "__main__":
    sys.exit(main())
