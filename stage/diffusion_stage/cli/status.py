"""`diffusion-stage status`: the replicas of a stage as a table, or as JSON."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from diffusion_stage import logs
from diffusion_stage.cli import curve
from diffusion_stage.client import AsyncStageClient, CurveKeys, ReplicaStatus
from diffusion_stage.errors import InvalidArgumentError

EX_NONE_READY = 1
EX_USAGE = 2
COLUMNS = (
    "REPLICA",
    "READY",
    "PHASE",
    "PIPELINE",
    "QUEUE",
    "RUNNING",
    "WORKERS",
    "MODEL",
    "TROUBLE",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", required=True, help="tcp://HOST:PORT or a Service's name")
    curve.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="everything that the replicas tell")
    parser.add_argument(
        "--timeout", type=float, default=5.0, metavar="SECONDS", help="for all replicas together"
    )


def run(args: argparse.Namespace) -> int:
    """0 when at least one replica is ready."""
    logs.configure(level="ERROR")  # what is wrong stands in the table
    try:
        keys = curve.keys_of(args)
    except InvalidArgumentError as error:
        return _refuse(f"{curve.FLAG}: {error}")
    try:
        replicas = asyncio.run(_ask(args.address, args.timeout, keys))
    except InvalidArgumentError as error:
        return _refuse(f"--address: {error}")
    if args.json:
        print(json.dumps([asdict(each) for each in replicas], indent=2, ensure_ascii=False))
    else:
        print(table([COLUMNS, *(_row(each) for each in replicas)]))
    return 0 if any(each.is_ready for each in replicas) else EX_NONE_READY


def _refuse(message: str) -> int:
    print(f"diffusion-stage status: {message}", file=sys.stderr)
    return EX_USAGE


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, as kubectl's."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("   ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


async def _ask(address: str, timeout_s: float, keys: CurveKeys | None) -> list[ReplicaStatus]:
    async with AsyncStageClient(address, curve=keys) as client:
        return await client.status(timeout_s=timeout_s)


def _row(replica: ReplicaStatus) -> tuple[str, ...]:
    """What a stage does not tell is a dash."""
    details = replica.details
    load = details.get("load", {})
    workers = details.get("workers")
    return (
        replica.name,
        "yes" if replica.is_ready else "no",
        details.get("phase", "-"),
        replica.pipeline or "-",
        str(load.get("waiting", "-")),
        str(load.get("running", "-")),
        "-" if workers is None else str(len(workers)),
        replica.model or "-",
        _trouble(replica),
    )


def _trouble(replica: ReplicaStatus) -> str:
    if replica.trouble is not None:
        return replica.trouble
    return "" if replica.is_connected else "not connected"
