import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


def test_the_demo_draws_what_was_asked_for_and_survives_all_that_is_done_to_it():
    done = subprocess.run(
        [sys.executable, "-m", "demo"], cwd=ROOT, env=os.environ, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((ROOT / "demo-output" / "report.json").read_text())
    assert report["icons"]["total"] == 16
    assert report["icons"]["right"] >= 15
    assert report["death"]["reason"] == "WorkerDied"
    assert report["death"]["exitCode"] == 71
    assert report["death"]["secondsToStatus"] <= 10
    requests = report["requests"]
    assert requests["answered"] == requests["sent"] == 20
    assert (requests["duplicated"], requests["lost"]) == (0, 0)
    assert len(report["operations"]) == 3
    for operation in report["operations"]:
        assert operation["answered"] == operation["sent"] > 0, operation
        assert (operation["lost"], operation["duplicated"]) == (0, 0), operation
    assert report["keys"]["served"]
    assert report["keys"]["refused"].startswith("UNAUTHENTICATED")
    assert report["leftovers"] == []
    assert (ROOT / "demo-output" / "icons.png").stat().st_size > 10_000
