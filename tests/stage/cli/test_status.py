"""`diffusion-stage status` against fake stages."""

import json

import pytest

from diffusion_stage.cli import main
from diffusion_stage.cli.status import table
from tests.fakes.stage import FakeStage
from tests.fakes.threads import StageThread

DETAILS = {
    "phase": "serving",
    "load": {"waiting": 3, "running": 2, "materializing": 0},
    "workers": [{"rank": 0}, {"rank": 1}],
}


@pytest.fixture
def stage():
    running = StageThread(FakeStage("flux-0"))
    running.stage.control = lambda control: DETAILS
    yield running.stage
    running.stop()


def status(*given):
    return main(["status", *given])


def test_replicas_are_shown_as_a_table(stage, capsys):
    assert status("--address", stage.address) == 0
    heading, replica = capsys.readouterr().out.splitlines()
    assert heading.split()[:7] == [
        "REPLICA",
        "READY",
        "PHASE",
        "PIPELINE",
        "QUEUE",
        "RUNNING",
        "WORKERS",
    ]
    assert replica.split() == [
        "flux-0",
        "yes",
        "serving",
        "FakePipeline",
        "3",
        "2",
        "2",
        "fake/model",
    ]


def test_json_holds_all_that_the_replicas_tell(stage, capsys):
    assert status("--address", stage.address, "--json") == 0
    (replica,) = json.loads(capsys.readouterr().out)
    assert (replica["name"], replica["details"]) == ("flux-0", DETAILS)


def test_a_replica_that_is_not_there_is_in_the_table_too(stage, capsys):
    addresses = f"{stage.address},tcp://127.0.0.1:1"
    assert status("--address", addresses, "--timeout", "0.5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("tcp://127.0.0.1:1" in line and "no connection" in line for line in lines)


def test_no_ready_replica_is_a_failure(capsys):
    assert status("--address", "tcp://127.0.0.1:1", "--timeout", "0.2") == 1


def test_columns_are_as_wide_as_their_widest_cell():
    assert table([("A", "B", ""), ("long", "x", "")]) == "A      B\nlong   x"
