"""Arguments, the order of the story, and what is left at its end."""

import argparse
import logging
import sys
from pathlib import Path

from demo.narrator import Details, Narrator
from demo.report import Report
from demo.scenario import Scenario
from demo.target import CurrentCluster, OwnCluster, Target, commands
from images import ImageError
from testcluster import ClusterError

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "demo-output"
TRY = (
    "kubectl get diffusionstages -o wide",
    "kubectl describe diffusionstage icons",
    "kubectl events --for diffusionstage/icons",
    "kubectl exec painter -- diffusion-stage status --address icons",
)


def main() -> int:
    options = _options()
    target = _target(options)
    narrator, report = Narrator(), Report()
    OUTPUT.mkdir(exist_ok=True)
    for name in ("images", "testcluster"):
        logging.getLogger(name).addHandler(Details(narrator))
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        _run(target, narrator, report, keep=options.keep)
    except (RuntimeError, ImageError, ClusterError) as error:
        faults = [str(error)]
    else:
        faults = report.faults
    report.steps = narrator.steps
    report.write(OUTPUT / "report.json")
    for fault in faults:
        print(f"demo: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _run(target: Target, narrator: Narrator, report: Report, *, keep: bool) -> None:
    """The cluster around the story, which leaves it up or nothing of it."""
    with narrator.step("cluster up"):
        what = target.up()
    narrator.say(what)
    try:
        _tell(Scenario(target, narrator, report, OUTPUT), keep=keep)
    finally:
        if keep:
            _keep(target, narrator)
        else:
            with narrator.step("cluster down"):
                report.leftovers = target.down()


def _tell(scenario: Scenario, *, keep: bool) -> None:
    scenario.install()
    scenario.start_stage()
    scenario.draw(0, 8)
    scenario.kill_a_worker()
    scenario.draw(8, 16)
    scenario.operate()
    scenario.finish()
    if not keep:
        scenario.uninstall()


def _keep(target: Target, narrator: Narrator) -> None:
    if isinstance(target, OwnCluster):
        target.keep()
    narrator.say(f"the cluster stays up; try\n{commands(target, TRY)}")
    if isinstance(target, OwnCluster):
        narrator.say("and end it with\npython -m testcluster down --name demo")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="One manifest in, images out."
    )
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end")
    parser.add_argument("--cluster", choices=["own", "current"], default="own")
    parser.add_argument("--registry", help="with --cluster current: where images are pushed to")
    return parser.parse_args()


def _target(options: argparse.Namespace) -> Target:
    if options.cluster == "current":
        return CurrentCluster(options.registry)
    return OwnCluster(ROOT / ".cache" / "testcluster" / "clusters" / "demo")


if __name__ == "__main__":
    sys.exit(main())
