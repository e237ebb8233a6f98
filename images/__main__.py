"""Images as a command: `python -m images build stage`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from images import deliver
from images.builder import build, pybase
from images.errors import ImageError
from images.recipe import RECIPES
from testcluster import Cluster, ClusterError, layout


def main(arguments: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parser().parse_args(arguments)
    try:
        make(options)
    except (ImageError, ClusterError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m images", description="The container images.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("build", help="build an image and print its name")
    command.add_argument("target", choices=[*RECIPES, "pybase"])
    command.add_argument("--tag", help="instead of a hash of everything that goes in")
    command.add_argument("--archive", type=Path, help="also write one that lacks nothing")
    command.add_argument("--push", metavar="REGISTRY", help="push it, to ghcr.io/someone say")
    command.add_argument("--load-name", metavar="CLUSTER", help="load it into a test cluster")
    return top


def make(options: argparse.Namespace) -> None:
    image = pybase() if options.target == "pybase" else build(options.target, tag=options.tag)
    if options.archive:
        deliver.complete(image, options.archive)
    if options.load_name:
        root = layout.cache() / "clusters" / options.load_name
        deliver.load(Cluster.attach(root), image)
    print(deliver.push(image, options.push) if options.push else image.name)


if __name__ == "__main__":
    sys.exit(main())
