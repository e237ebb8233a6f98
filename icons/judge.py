"""A small network that reads object, colour, size and background from an icon of 64 x 64 pixels.

It was trained on fresh renderings of glyphs alone and has never seen a generated image, so it
cannot have learned the generator's faults.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from icons.scenes import BACKGROUNDS, COLOURS, OBJECTS, SIZES, Scene, parse

WEIGHTS = Path(__file__).parents[1] / "models" / "icons-judge.safetensors"
SIDE = 64
CHANNELS = (3, 24, 32, 48, 64)
HEADS = (OBJECTS, COLOURS, SIZES, BACKGROUNDS)


class JudgeNetwork(nn.Module):
    """Four convolutions and two linear layers; the outputs are the words of `HEADS`, one by one."""

    def __init__(self) -> None:
        super().__init__()
        first, *others = itertools.pairwise(CHANNELS)
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(*first, kernel_size=5, stride=2, padding=2),
                *(nn.Conv2d(*each, kernel_size=3, padding=1) for each in others),
            ]
        )
        self.norms = nn.ModuleList(nn.GroupNorm(8, channels) for channels in CHANNELS[1:])
        self.hidden = nn.Linear(CHANNELS[-1] * 4 * 4, 96)
        self.out = nn.Linear(96, sum(map(len, HEADS)))

    def forward(self, pixels: Tensor) -> Tensor:
        """[n, 3, 64, 64] in -1..1 to logits [n, words]."""
        x = pixels
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = functional.relu(norm(conv(x)))
            if index > 0:
                x = functional.max_pool2d(x, 2)
        return cast("Tensor", self.out(functional.relu(self.hidden(x.flatten(1)))))


class Judge:
    """Says what an icon shows, and whether that is what its prompt asked for."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        self._network = JudgeNetwork().eval()
        halves = load_file(weights)
        self._network.load_state_dict({name: half.float() for name, half in halves.items()})

    def see(self, images: Sequence[Image.Image]) -> list[Scene]:
        """The most likely scene of each image, its size always named."""
        with torch.no_grad():
            logits = self._network(_pixels(images)).split([len(words) for words in HEADS], dim=1)
        columns = [
            [words[index] for index in head.argmax(dim=1).tolist()]
            for words, head in zip(HEADS, logits, strict=True)
        ]
        return [
            Scene(object=thing, colour=colour, size=size, background=background)
            for thing, colour, size, background in zip(*columns, strict=True)
        ]

    def is_right(self, images: Sequence[Image.Image], prompts: Sequence[str]) -> list[bool]:
        """Whether each image shows all that its prompt names; raises as `icons.scenes.parse`."""
        return [
            _agrees(seen, parse(prompt))
            for seen, prompt in zip(self.see(images), prompts, strict=True)
        ]


def _agrees(seen: Scene, asked: Scene) -> bool:
    return (
        (seen.object, seen.colour, seen.background)
        == (asked.object, asked.colour, asked.background)
    ) and asked.size in (None, seen.size)


def _pixels(images: Sequence[Image.Image]) -> Tensor:
    for image in images:
        if image.size != (SIDE, SIDE):
            raise ValueError(f"an image of {image.size} pixels; the judge reads ({SIDE}, {SIDE})")
    stacked = np.stack([np.asarray(image.convert("RGB")) for image in images])
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).float().div(127.5).sub(1)
