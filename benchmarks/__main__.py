"""`python -m benchmarks`: measure, print side by side, write `bench-output/results.json`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from benchmarks import batching, growth, latency, operator, policy, result, startup, transfer
from benchmarks.processes import ROOT

SUITES: dict[str, Callable[[int], list[result.Result]]] = {
    "latency": latency.run,
    "batching": batching.run,
    "policy": policy.run,
    "transfer": transfer.run,
    "startup": startup.run,
    "growth": growth.run,
    "operator": operator.run,
}
MIN_BLOCKS = 7


def main() -> None:
    """Figures are for people to judge: no limit makes this fail."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of: {', '.join(SUITES)}")
    parser.add_argument("--blocks", type=int, default=MIN_BLOCKS, help="at least %(default)s")
    parser.add_argument("--output", type=Path, default=ROOT / "bench-output" / "results.json")
    arguments = parser.parse_args()
    chosen = arguments.suites or list(SUITES)
    if unknown := set(chosen) - set(SUITES):
        parser.error(f"suite {', '.join(unknown)}; allowed: {', '.join(SUITES)}")
    if arguments.blocks < MIN_BLOCKS:
        parser.error(f"--blocks {arguments.blocks}; allowed: {MIN_BLOCKS} or more")
    # Both sides run in children; what this process itself computes uses one thread, as they do.
    os.environ["OMP_NUM_THREADS"] = "1"
    results = []
    for name in chosen:
        print(f"{name} (load average {_load()})", flush=True)
        for each in SUITES[name](arguments.blocks):
            print(f"  {each}", flush=True)
            results.append(each)
    print(f"load average at the end {_load()}; ratios are ours ÷ baseline, medians of blocks")
    result.write(results, arguments.output)


def _load() -> str:
    return " ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    main()
