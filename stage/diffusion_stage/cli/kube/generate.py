"""`kubectl dstage generate`: `diffusion-stage generate` from outside the cluster."""

import argparse
from typing import NoReturn

from diffusion_stage.cli import generate
from diffusion_stage.cli.kube.forwards import Forwards
from diffusion_stage.cli.kube.kubectl import Kubectl


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `generate`, but stage and prompts stand without a flag; needs a parser that
    resolves conflicts."""
    generate.add_arguments(parser)
    for flag in ("--address", "--prompt"):
        parser.add_argument(flag, type=_refuse, help=argparse.SUPPRESS)
    parser.add_argument("name", metavar="NAME", help="of a stage")
    parser.add_argument("prompt", metavar="PROMPT", nargs="+", help="one for each request")


def _refuse(text: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"{text!r}; here NAME and PROMPT stand without a flag")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    """As that of `generate`. A replica that dies is replaced by another, as in the cluster."""
    with Forwards(kubectl, args.name) as forwards:
        args.address = forwards.address
        return generate.run(args)
