"""A change of a stage's spec."""

import json
from typing import Any

from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.objects import RESOURCE, Stage


async def patch(kubectl: Kubectl, name: str, spec: dict[str, Any]) -> Stage:
    """The stage as the API server has taken it. Raises KubectlError."""
    change = f"--patch={json.dumps({'spec': spec})}"
    command = ("patch", RESOURCE, name, "--type=merge", change, "--output=json")
    return Stage.model_validate_json(await kubectl.read(*command))
