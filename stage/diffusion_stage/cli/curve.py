"""The flag with which commands that speak with a stage are given their keys."""

import argparse
import os

from diffusion_stage.client import CurveKeys

FLAG = "--curve-dir"
VARIABLE = "DIFFUSION_STAGE_CURVE_DIR"


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        FLAG,
        default=os.environ.get(VARIABLE),
        metavar="DIR",
        help="with the files secret-key, public-key and servers, for stages that speak CURVE; "
        f"default: ${VARIABLE}",
    )


def keys_of(args: argparse.Namespace) -> CurveKeys | None:
    """Raises `InvalidArgumentError` as `CurveKeys.read`."""
    return CurveKeys.read(args.curve_dir) if args.curve_dir else None
