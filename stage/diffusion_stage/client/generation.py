"""What a client gets back: the finished generation, and parts of it on the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

from diffusion_stage.errors import InternalError, InvalidArgumentError
from diffusion_stage.wire import tensors
from diffusion_stage.wire.codec import Frame
from diffusion_stage.wire.messages import Tensor
from diffusion_stage.wire.tensors import Array


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A chunk of the output of a streaming stage, `index` counting from 0."""

    index: int
    outputs: dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A finished request. `outputs` are arrays by name: `uint8` images, or numbers as asked for.

    `kinds` tells for each output whether it is an `image`, a `video` or a `tensor`; `metrics` are
    milliseconds by stage of the request's life; `attempts` counts tries, over all replicas.
    """

    request_id: str
    outputs: dict[str, Array] = field(repr=False)
    kinds: dict[str, str]
    seed: int
    attempts: int
    replica: str
    model: str = ""
    rank: int = 0
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def images(self) -> list[Image.Image]:
        """The images of the request, in the order of its prompts; none for other outputs."""
        batches = [self.outputs[name] for name, kind in self.kinds.items() if kind == "image"]
        return [_image(pixels) for batch in batches for pixels in batch]

    def tensor(self, name: str | None = None) -> Any:
        """An output as a torch tensor, the only one if no `name` is given; torch is imported now.

        It shares memory with `outputs` where that is writable.
        """
        import torch

        if name is None:
            if len(self.outputs) != 1:
                raise KeyError(f"name one of the outputs: {', '.join(self.outputs)}")
            (name,) = self.outputs
        array = self.outputs[name]
        return torch.from_numpy(array if array.flags.writeable else array.copy())


FRAME_AXIS = {"image": 1, "tensor": 1, "latent": 2}
"""Where a video has its frames: [n, frames, ...], and latents [n, channels, frames, ...]."""


def whole(generation: Generation, parts: Sequence[Part], *, output: str) -> Generation:
    """The generation with what came in parts before it; `output` is what was asked for."""
    if not parts:
        return generation
    axis = FRAME_AXIS[output]
    joined = {
        name: np.concatenate([*(p.outputs[name] for p in parts if name in p.outputs), last], axis)
        for name, last in generation.outputs.items()
    }
    return replace(generation, outputs=joined)


def arrays(specs: Sequence[Tensor], payload: Sequence[Frame], *, sender: str) -> dict[str, Array]:
    """The outputs by name. Raises `InternalError` when the stage sent what does not fit."""
    try:
        return {
            spec.name: tensors.array(spec, data) for spec, data in zip(specs, payload, strict=True)
        }
    except InvalidArgumentError as error:
        raise InternalError(f"{sender} sent a malformed output: {error}") from None


def _image(pixels: Array) -> Image.Image:
    return Image.fromarray(np.squeeze(pixels, axis=2) if pixels.shape[2] == 1 else pixels)
