"""`kubectl dstage suspend`: no replica runs, and everything else is kept."""

import argparse
import asyncio

from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.patch import patch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    asyncio.run(patch(kubectl, args.name, {"suspend": True}))
    print(f"{args.name} is suspended: its replicas finish what they have accepted, and stop")
    return 0
