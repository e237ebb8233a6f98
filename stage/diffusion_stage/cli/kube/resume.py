"""`kubectl dstage resume`: a suspended stage runs its replicas again."""

import argparse
import asyncio

from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.patch import patch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    stage = asyncio.run(patch(kubectl, args.name, {"suspend": False}))
    print(
        f"{args.name} is to run {stage.spec.replicas} replicas: kubectl dstage status {args.name}"
    )
    return 0
