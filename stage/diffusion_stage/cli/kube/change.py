"""`kubectl dstage restart`, `suspend` and `resume`: one field of the spec each."""

import argparse
import asyncio
import json
import secrets
import sys
from datetime import UTC, datetime
from typing import Any

from diffusion_stage.cli.kube.errors import EX_NOT_READY, KubectlError
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import RESOURCE, Stage

TOKEN_BYTES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    if parser.prog.endswith(" restart"):
        parser.add_argument("--wait", action="store_true", help="until all replicas are new")
        parser.add_argument("--timeout", default="1h", metavar="DURATION", help="of --wait")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    changes: dict[str, dict[str, Any]] = {
        "restart": {"restartToken": fresh_token(datetime.now(UTC))},
        "suspend": {"suspend": True},
        "resume": {"suspend": False},
    }
    stage = asyncio.run(_patch(kubectl, args.name, changes[args.command]))
    print(outcome(args.command, stage))
    if args.command == "restart" and args.wait and not stage.spec.suspend:
        return asyncio.run(_wait(kubectl, args.name, args.timeout))
    return 0


def fresh_token(now: datetime) -> str:
    """One that no other restart has; a person who reads the manifest sees when it was."""
    return f"{now:%Y-%m-%dT%H:%M:%SZ}-{secrets.token_hex(TOKEN_BYTES)}"


def outcome(command: str, stage: Stage) -> str:
    """What comes of the change, which the API server has taken."""
    name = stage.metadata.name
    if command == "suspend":
        return f"{name} is suspended: its replicas finish what they have accepted, and stop"
    if stage.spec.suspend:
        return f"{name} is suspended, so no replica runs: kubectl dstage resume {name}"
    if command == "resume":
        return f"{name} is to run {stage.spec.replicas} replicas"
    if stage.spec.update_strategy.type == "OnDelete":
        return (
            f"{name}: spec.updateStrategy is OnDelete, so each pod is replaced once it is deleted"
        )
    return f"{name}: {stage.spec.replicas} replicas are replaced, one after the other"


async def _patch(kubectl: Kubectl, name: str, spec: dict[str, Any]) -> Stage:
    patch = json.dumps({"spec": spec})
    command = ("patch", RESOURCE, name, "--type=merge", f"--patch={patch}", "--output=json")
    return Stage.model_validate_json(await kubectl.read(*command))


async def _wait(kubectl: Kubectl, name: str, limit: str) -> int:
    """Ready tells of the present spec: kubectl compares the generation that it speaks of."""
    command = ("wait", f"{RESOURCE}/{name}", "--for=condition=Ready", f"--timeout={limit}")
    try:
        await kubectl.read(*command, timeout_s=None)
    except KubectlError as error:
        if "timed out" not in error.words:
            raise
        print(f"{name} is not ready after {limit}: kubectl dstage status {name}", file=sys.stderr)
        return EX_NOT_READY
    print(f"{name} is ready, with new replicas")
    return 0
