"""`kubectl dstage status`: a stage, its replicas and its Events as a tree, or as JSON."""

import argparse
import asyncio
import json
import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from diffusion_stage.cli.kube.cluster import Scope, read_trees
from diffusion_stage.cli.kube.colours import Colours
from diffusion_stage.cli.kube.errors import EX_KUBECTL, EX_NOT_READY, KubectlError
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.tree import StageTree
from diffusion_stage.cli.kube.view import View

WATCH_EVERY_S = 2.0
WIDTH = 100  # off a terminal
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="all stages, if it is not given")
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("-o", "--output", choices=("json",), help="all that was found, as a list")
    shown.add_argument("-w", "--watch", action="store_true", help="show it anew when it changes")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    """0 when all that was asked for is ready."""
    if args.name and args.all_namespaces:
        print("kubectl dstage status: a stage by its NAME is in one namespace", file=sys.stderr)
        return EX_KUBECTL
    scope = Scope(args.name, is_everywhere=args.all_namespaces)
    if args.watch:
        asyncio.run(_watch(kubectl, scope))
    trees = asyncio.run(read_trees(kubectl, scope))
    if args.output == "json":
        print(json.dumps([asdict(each) for each in trees], indent=2, default=_time))
    else:
        print(_text(trees))
    return 0 if all(each.is_ready for each in trees) else EX_NOT_READY


async def _watch(kubectl: Kubectl, scope: Scope) -> None:
    """Until it is interrupted. What fails after the first look is shown, and tried again."""
    shown: object = None
    trees = await read_trees(kubectl, scope)
    trouble = ""
    while True:
        if sys.stdout.isatty() or (trees, trouble) != shown:
            head = CLEAR if sys.stdout.isatty() else ""
            print(head + _text(trees) + (f"\n! {trouble}" if trouble else ""), flush=True)
        shown = (trees, trouble)
        await asyncio.sleep(WATCH_EVERY_S)
        try:
            trees, trouble = await read_trees(kubectl, scope), ""
        except KubectlError as error:
            trouble = f"as of earlier: {error}"


def _text(trees: list[StageTree]) -> str:
    if not trees:
        return "no stages here; -A looks in all namespaces"
    colours = Colours.of(sys.stdout)
    width = shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
    view = View(datetime.now(UTC), width, colours)
    return "\n\n".join("\n".join(view.lines(each)) for each in trees)


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.model_dump()  # type: ignore[no-any-return]  # a part of what a replica said
