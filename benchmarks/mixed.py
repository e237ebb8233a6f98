"""The requests of the batching benchmarks: eight at once, with steps and guidance of their own."""

from typing import Any

WORDS = ("heart", "star", "tree", "moon", "cat", "house", "key", "crown")
COLOURS = ("red", "blue", "green", "yellow", "purple", "orange", "black", "pink")
SIDE = 64
REQUESTS: list[dict[str, Any]] = [
    {
        "prompt": f"a large {colour} {word} on a white background",
        "height": SIDE,
        "width": SIDE,
        "num_inference_steps": 16 + number,
        "guidance_scale": 0.0 if number % 4 == 3 else 1.0 + number / 2,
        "seed": number,
    }
    for number, (word, colour) in enumerate(zip(WORDS, COLOURS, strict=True))
]
