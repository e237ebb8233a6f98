"""A pipeline without a model, whose output is a video of 97 MB."""

from typing import Any

import numpy as np
from diffusers import DiffusionPipeline

from benchmarks.memcpy import SHAPE


class VideoPipeline(DiffusionPipeline):
    """Hands out the same frames for each request, so that the transfer is all that takes time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # annotated in part
        self._frames = np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8)

    def __call__(self, prompt: str = "", generator: Any = None) -> dict[str, Any]:  # noqa: ARG002  # the stage passes both
        return {"frames": self._frames}
