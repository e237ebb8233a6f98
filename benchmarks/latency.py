"""P1: a request through the ZMQ client and a worker process, beside plain `pipe()`."""

import hashlib
import time
from typing import Any

from benchmarks.blocks import alternate, median_of
from benchmarks.processes import ICONS_MODEL, PlainPipeline, StageProcess
from benchmarks.result import Result, ratio
from diffusion_stage.client import StageClient

REPEATS = 5
WARM_UP = 2
ARGUMENTS: dict[str, Any] = {
    "prompt": "a large red heart on a white background",
    "height": 64,
    "width": 64,
    "num_inference_steps": 20,
    "guidance_scale": 2.0,
}


class Sides:
    """Both sides draw the seeds 0, 1, ... and keep the digests of their images."""

    def __init__(self, client: StageClient, plain: PlainPipeline) -> None:
        self._client = client
        self._plain = plain
        self.our_digests: list[str] = []
        self.plain_digests: list[str] = []

    def ours(self) -> float:
        seed = len(self.our_digests)
        start = time.perf_counter()
        image = self._client.generate(**ARGUMENTS, seed=seed).images[0]
        seconds = time.perf_counter() - start
        self.our_digests.append(hashlib.sha256(image.tobytes()).hexdigest())
        return seconds

    def baseline(self) -> float:
        seconds, digest = self._plain.generate({**ARGUMENTS, "seed": len(self.plain_digests)})
        self.plain_digests.append(digest)
        return seconds


def run(blocks: int) -> list[Result]:
    """Raises `RuntimeError` when the sides draw different images: their times mean nothing then."""
    with (
        PlainPipeline() as plain,
        StageProcess(ICONS_MODEL) as stage,
        StageClient(stage.address) as client,
    ):
        sides = Sides(client, plain)
        alternate(sides.ours, sides.baseline, blocks=WARM_UP)
        pairs = alternate(
            median_of(sides.ours, REPEATS), median_of(sides.baseline, REPEATS), blocks=blocks
        )
    if sides.our_digests != sides.plain_digests:
        raise RuntimeError("the stage and plain diffusers drew different images")
    return [
        ratio(
            "P1.mp_zmq",
            f"one request, ZMQ client and mp executor ÷ pipe(), median of {REPEATS} calls a block",
            pairs,
            baseline=lambda seconds: f"pipe() {seconds:.3f} s",
            limit=1.10,
        )
    ]
