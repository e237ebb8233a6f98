"""`kubectl dstage generate`: the client's own code behind a port-forward."""

import json

import pytest

from tests.fakes.stage import FakeStage, answer, hold
from tests.fakes.threads import StageThread
from tests.stage.cli.kube.builders import listed, pod_json
from tests.stage.cli.kube.test_forwards import announce


@pytest.fixture
def stages(kubectl):
    """Two replicas, each reached at the port that its port-forward tells."""
    running = [StageThread(FakeStage(f"flux-{n}")) for n in range(2)]
    for n, each in enumerate(running):
        port = each.stage.address.rpartition(":")[2]
        kubectl.on(f"port-forward .* pod/flux-{n}", announce(port), stays="up")
    yield running
    for each in running:
        each.stop()


def test_prompts_become_files(dstage, stages, tmp_path, capsys):
    asked = ("a red circle", "a blue square", "--steps=4", "--seed=5", "--json", "--out", tmp_path)
    assert dstage("generate", "flux", *asked) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [one["prompt"] for one in outcomes] == ["a red circle", "a blue square"]
    assert {one["replica"] for one in outcomes} <= {"flux-0", "flux-1"}
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "01-a-red-circle.png",
        "02-a-blue-square.png",
    ]


def test_a_replica_that_dies_is_replaced_by_another(dstage, stages, tmp_path, capsys):
    other = stages[1]
    other.stage.ready = False

    def serve():
        other.stage.ready = True
        other.stage.tell_all(other.stage.hello())

    async def die(task):
        task.accept()
        task.stage.die()
        other.loop.call_soon_threadsafe(serve)

    stages[0].stage.script = die
    assert dstage("generate", "flux", "a", "--json", "--out", tmp_path) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (outcome["replica"], outcome["attempts"]) == ("flux-1", 2)


def test_a_replica_that_is_not_ready_is_not_asked(dstage, stages, kubectl, tmp_path):
    kubectl.on("get pods", listed(pod_json(0, ready=False), pod_json(1)))
    stages[0].stage.script, stages[1].stage.script = hold, answer
    assert dstage("generate", "flux", "a", "--out", tmp_path) == 0
    assert stages[0].stage.tasks == []


@pytest.mark.parametrize("flag", ["--address=tcp://x:1", "--prompt=a"])
def test_the_flags_of_the_other_generate_are_refused(flag, dstage, kubectl, capsys):
    with pytest.raises(SystemExit) as ended:
        dstage("generate", "flux", "a", flag)
    assert ended.value.code == 2
    assert "here NAME and PROMPT stand without a flag" in capsys.readouterr().err
