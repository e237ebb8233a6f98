"""`kubectl dstage logs`: what all replicas write, each line under its replica's name."""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from diffusion_stage.cli.kube.cluster import Scope, read_pods, read_stage
from diffusion_stage.cli.kube.errors import EX_KUBECTL, EX_NOT_READY
from diffusion_stage.cli.kube.follower import Follower
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import Pod
from diffusion_stage.cli.kube.replicas import CRASH_LOOP, number
from diffusion_stage.cli.kube.streams import End, Line, in_turn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--replica", metavar="N|POD", help="this one alone, by number or pod")
    time = parser.add_mutually_exclusive_group()
    time.add_argument(
        "-p", "--previous", action="store_true", help="of the containers that died before these"
    )
    time.add_argument("-f", "--follow", action="store_true", help="go on, with new replicas too")
    parser.add_argument("--since", metavar="DURATION", help="such as 10m")
    parser.add_argument("--tail", type=int, metavar="N", help="the last lines of each replica")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    """1 when there is no log, 2 when one cannot be read."""
    return asyncio.run(_run(kubectl, args))


async def _run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    chosen = _pod_name(args.name, args.replica)

    async def look() -> list[Pod]:
        pods = await read_pods(kubectl, Scope(args.name))
        pods = [pod for pod in pods if chosen in (None, pod.name)]
        return sorted(pods, key=lambda pod: number(pod.name))

    pods = await look()
    if not pods:
        await read_stage(kubectl, args.name)  # says so where there is none
    if args.follow:
        return await _print(Follower(kubectl, look, _options(args)).lines(pods))
    if args.previous:
        pods = [pod for pod in pods if pod.container.restart_count]
    if not pods:
        which = "that died before" if args.previous else "here"
        _tell(f"{chosen or args.name}: no container {which}")
        return EX_NOT_READY
    code = await _print(in_turn(kubectl, [pod.name for pod in pods], _options(args)))
    if not args.previous:
        _hint(args.name, pods)
    return code


def _pod_name(stage: str, replica: str | None) -> str | None:
    return f"{stage}-{replica}" if replica is not None and replica.isdigit() else replica


def _options(args: argparse.Namespace) -> Sequence[str]:
    given = (
        "--previous" if args.previous else None,
        None if args.since is None else f"--since={args.since}",
        None if args.tail is None else f"--tail={args.tail}",
    )
    return [option for option in given if option is not None]


async def _print(items: AsyncGenerator[Line | End, None]) -> int:
    code = 0
    async with aclosing(items):
        async for item in items:
            match item:
                case Line():
                    sys.stdout.buffer.write(b"[%s] %s\n" % (item.pod.encode(), item.content))
                    sys.stdout.buffer.flush()
                case End() if item.words:
                    _tell(f"{item.pod}: {item.words}")
                    code = EX_KUBECTL
    return code


def _hint(name: str, pods: Sequence[Pod]) -> None:
    waits = ((pod.name, pod.container.state.waiting) for pod in pods)
    looping = [pod for pod, wait in waits if wait is not None and wait.reason == CRASH_LOOP]
    if looping:
        _tell(
            f"{', '.join(looping)}: dies again and again; the container before the last one is "
            f"shown by: kubectl dstage logs {name} --previous"
        )


def _tell(text: str) -> None:
    print(f"kubectl dstage logs: {text}", file=sys.stderr)
