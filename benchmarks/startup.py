"""P8 and P10: a start until ready, and the memory after one image, beside a plain program."""

from benchmarks.blocks import Pair, alternate
from benchmarks.latency import ARGUMENTS
from benchmarks.processes import ICONS_MODEL, PlainPipeline, StageProcess
from benchmarks.result import Result, ratio
from diffusion_stage.client import StageClient

MEGABYTE = 1e6


def run(blocks: int) -> list[Result]:
    """One start of each side a block, never both at once: shared pages would count by half."""
    our_bytes: list[int] = []
    plain_bytes: list[int] = []

    def ours() -> float:
        with StageProcess(ICONS_MODEL) as stage:
            with StageClient(stage.address) as client:
                client.generate(**ARGUMENTS, seed=0)
            our_bytes.append(stage.proportional_bytes())
            return stage.ready_s

    def baseline() -> float:
        with PlainPipeline() as plain:
            plain.generate({**ARGUMENTS, "seed": 0})
            plain_bytes.append(plain.proportional_bytes())
            return plain.ready_s

    baseline()  # the first start reads from disk
    plain_bytes.clear()
    starts = alternate(ours, baseline, blocks=blocks)
    memory = [Pair(ours=o, baseline=b) for o, b in zip(our_bytes, plain_bytes, strict=True)]
    return [
        ratio(
            "P8.start",
            "process start to ready and warm, mp ÷ a plain program that imports and loads",
            starts,
            baseline=lambda seconds: f"plain program {seconds:.2f} s",
            limit=1.3,
        ),
        ratio(
            "P10.rss",
            "PSS of stage process and one worker ÷ a plain program, each after one image",
            memory,
            baseline=lambda size: f"plain program {size / MEGABYTE:.0f} MB",
            limit=1.2,
        ),
    ]
