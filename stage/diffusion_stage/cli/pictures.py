"""Generations as files: PNG with its own recipe in its metadata, other outputs as arrays."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from diffusion_stage.client import Generation

SLUG_LENGTH = 48


def save(
    generation: Generation, folder: Path, *, number: int, prompt: str, parameters: Mapping[str, Any]
) -> list[Path]:
    """Writes `folder/NN-words-of-the-prompt.png`, existing files too, and returns the paths.

    The text chunks of a PNG are prompt, seed, parameters (JSON), model, request_id and replica.
    """
    stem = f"{number:02d}-{_slug(prompt)}"
    info = _metadata(generation, prompt, parameters)
    images = [
        _write(image, folder / f"{stem}{suffix}.png", info)
        for image, suffix in _suffixed(generation.images)
    ]
    others = [name for name, kind in generation.kinds.items() if kind != "image"]
    arrays = [folder / f"{stem}-{_slug(name)}.npy" for name in others]
    for path, name in zip(arrays, others, strict=True):
        np.save(path, generation.outputs[name])
    return [*images, *arrays]


def _suffixed(images: list[Image.Image]) -> list[tuple[Image.Image, str]]:
    """No suffix for a single image."""
    if len(images) == 1:
        return [(images[0], "")]
    return [(image, f"-{index}") for index, image in enumerate(images, start=1)]


def _write(image: Image.Image, path: Path, info: PngInfo) -> Path:
    image.save(path, pnginfo=info)
    return path


def _metadata(generation: Generation, prompt: str, parameters: Mapping[str, Any]) -> PngInfo:
    info = PngInfo()
    for key, text in {
        "prompt": prompt,
        "seed": str(generation.seed),
        "parameters": json.dumps(parameters, ensure_ascii=False),
        "model": generation.model,
        "request_id": generation.request_id,
        "replica": generation.replica,
    }.items():
        info.add_itxt(key, text)  # tEXt is Latin-1 only
    return info


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text.lower())[:SLUG_LENGTH].strip("-") or "output"
