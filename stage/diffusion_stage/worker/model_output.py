"""What a forward left on the device, by name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from diffusion_stage.errors import InternalError


@dataclass(slots=True)
class ModelOutput:
    """Tensors or arrays by name, and how long they took in milliseconds."""

    tensors: dict[str, Any]
    is_image: bool
    forward_ms: float


def fields_of(returned: Any) -> dict[str, Any]:
    """The tensors of a pipeline's return value: an output class, a tuple, or a bare array."""
    if isinstance(returned, dict):
        found = {name: _as_array(value) for name, value in returned.items()}
    else:
        values = returned if isinstance(returned, tuple) else (returned,)
        found = {f"output_{i}": _as_array(value) for i, value in enumerate(values)}
    kept = {name: value for name, value in found.items() if value is not None}
    if not kept:
        raise InternalError(f"the pipeline returned no tensor, but a {type(returned).__name__}")
    return kept


def _as_array(value: Any) -> Any:
    """A tensor or array as it is, a list of them stacked; None for anything else."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value
    if isinstance(value, list) and value:
        if isinstance(value[0], Image.Image):
            return np.stack([np.asarray(picture) for picture in value])
        parts = [_as_array(part) for part in value]
        if all(isinstance(part, torch.Tensor) for part in parts):
            return torch.stack(parts)
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.stack(parts)
    return None
