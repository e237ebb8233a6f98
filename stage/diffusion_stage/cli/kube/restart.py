"""`kubectl dstage restart`: new replicas, one after the other, of the same spec."""

import argparse
import asyncio
import secrets
import sys
from datetime import UTC, datetime

from diffusion_stage.cli.kube.errors import EX_NOT_READY, KubectlError
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import RESOURCE, Stage
from diffusion_stage.cli.kube.patch import patch

TOKEN_BYTES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--wait", action="store_true", help="until the stage is ready again")
    parser.add_argument("--timeout", default="1h", metavar="DURATION", help="of --wait")


def run(kubectl: Kubectl, args: argparse.Namespace) -> int:
    """1 when the stage is not ready in time."""
    token = fresh_token(datetime.now(UTC))
    stage = asyncio.run(patch(kubectl, args.name, {"restartToken": token}))
    print(outcome(stage))
    if args.wait and not stage.spec.suspend:
        return asyncio.run(_wait(kubectl, args.name, args.timeout))
    return 0


def fresh_token(now: datetime) -> str:
    """One that no other restart has; a person who reads the manifest sees when it was."""
    return f"{now:%Y-%m-%dT%H:%M:%SZ}-{secrets.token_hex(TOKEN_BYTES)}"


def outcome(stage: Stage) -> str:
    """What comes of the token."""
    name = stage.metadata.name
    if stage.spec.suspend:
        return f"{name} is suspended, so no replica runs: kubectl dstage resume {name}"
    if stage.spec.update_strategy.type == "OnDelete":
        return f"{name}: spec.updateStrategy is OnDelete: each pod is replaced once it is deleted"
    return f"{name}: {stage.spec.replicas} replicas are replaced, one after the other"


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
    print(f"{name} is ready")
    return 0
