"""P1: a request through the stage, or through an engine in process, beside plain `pipe()`."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

from benchmarks.blocks import Pair, alternate, median_of
from benchmarks.processes import ICONS_MODEL, InlineEngine, PlainPipeline, StageProcess
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

    def __init__(self, draw: Callable[[int], tuple[float, str]], plain: PlainPipeline) -> None:
        self._draw = draw
        self._plain = plain
        self.our_digests: list[str] = []
        self.plain_digests: list[str] = []

    def ours(self) -> float:
        seconds, digest = self._draw(len(self.our_digests))
        self.our_digests.append(digest)
        return seconds

    def baseline(self) -> float:
        seconds, digest = self._plain.generate({**ARGUMENTS, "seed": len(self.plain_digests)})
        self.plain_digests.append(digest)
        return seconds


def run(blocks: int) -> list[Result]:
    """Raises `RuntimeError` when the sides draw different images: their times mean nothing then."""
    with PlainPipeline() as plain:
        with StageProcess(ICONS_MODEL) as stage, StageClient(stage.address) as client:
            through_zmq = _compare(Sides(lambda seed: _ask(client, seed), plain), blocks)
        with InlineEngine() as inline:
            draw = lambda seed: inline.generate({**ARGUMENTS, "seed": seed})  # noqa: E731
            in_process = _compare(Sides(draw, plain), blocks)
    return [
        _result("P1.mp_zmq", "one request, ZMQ client and mp executor ÷ pipe()", through_zmq, 1.05),
        _result("P1.uni", "one request, engine in process, uni ÷ pipe()", in_process, 1.03),
    ]


def _ask(client: StageClient, seed: int) -> tuple[float, str]:
    start = time.perf_counter()
    image = client.generate(**ARGUMENTS, seed=seed).images[0]
    seconds = time.perf_counter() - start
    return seconds, hashlib.sha256(image.tobytes()).hexdigest()


def _compare(sides: Sides, blocks: int) -> list[Pair]:
    alternate(sides.ours, sides.baseline, blocks=WARM_UP)
    pairs = alternate(
        median_of(sides.ours, REPEATS), median_of(sides.baseline, REPEATS), blocks=blocks
    )
    if sides.our_digests != sides.plain_digests:
        raise RuntimeError("the stage and plain diffusers drew different images")
    return pairs


def _result(benchmark: str, name: str, pairs: list[Pair], limit: float) -> Result:
    return ratio(
        benchmark,
        f"{name}, median of {REPEATS} calls a block",
        pairs,
        baseline=lambda seconds: f"pipe() {seconds:.3f} s",
        limit=limit,
    )
