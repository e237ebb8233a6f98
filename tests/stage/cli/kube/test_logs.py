"""`kubectl dstage logs` with a kubectl that answers as told."""

from contextlib import aclosing

import pytest

from diffusion_stage.cli.kube import follower
from diffusion_stage.cli.kube.errors import KubectlError, KubeError
from diffusion_stage.cli.kube.follower import Follower
from diffusion_stage.cli.kube.kubectl import Kubectl
from diffusion_stage.cli.kube.streams import End, Line
from tests.stage.cli.kube.builders import ended, listed, make_pod, pod_json, waiting

DIED = ended(71)


@pytest.fixture
def logs(kubectl):
    """Each replica writes two lines."""
    for n in range(2):
        kubectl.on(f"logs flux-{n} --container=stage", f"first of {n}\nsecond of {n}\n")
    return kubectl


def test_each_line_is_told_with_its_replica_and_replicas_come_in_order(dstage, logs, capfdbinary):
    logs.on("get pods", listed(pod_json(1), pod_json(0)))
    assert dstage("logs", "flux") == 0
    assert capfdbinary.readouterr().out.splitlines() == [
        b"[flux-0] first of 0",
        b"[flux-0] second of 0",
        b"[flux-1] first of 1",
        b"[flux-1] second of 1",
    ]


@pytest.mark.parametrize("replica", ["1", "flux-1"])
def test_one_replica_is_chosen_by_number_or_pod(replica, dstage, logs, capfdbinary):
    assert dstage("logs", "flux", "--replica", replica) == 0
    assert {line[:8] for line in capfdbinary.readouterr().out.splitlines()} == {b"[flux-1]"}


def test_since_and_tail_are_kubectls(dstage, logs):
    assert dstage("logs", "flux", "--since=10m", "--tail=5") == 0
    assert logs.calls("logs")[0] == [
        *("logs", logs.calls("logs")[0][1], "--container=stage", "--since=10m", "--tail=5")
    ]


def test_previous_asks_only_replicas_whose_container_died(dstage, logs, capfdbinary):
    logs.on("get pods", listed(pod_json(0), pod_json(1, last=DIED)))
    assert dstage("logs", "flux", "--previous") == 0
    (call,) = logs.calls("logs")
    assert call[1:] == ["flux-1", "--container=stage", "--previous"]


def test_where_nothing_died_previous_says_so(dstage, logs, capsys):
    assert dstage("logs", "flux", "--previous") == 1
    assert "flux: no container that died before" in capsys.readouterr().err


def test_a_replica_that_dies_again_and_again_is_hinted_at(dstage, logs, capsys):
    again = waiting("CrashLoopBackOff", "back-off 40s restarting")
    logs.on("get pods", listed(pod_json(0), pod_json(1, ready=False, state=again, last=DIED)))
    assert dstage("logs", "flux") == 0
    assert "flux-1: dies again and again" in capsys.readouterr().err
    assert dstage("logs", "flux", "--previous") == 0
    assert "again and again" not in capsys.readouterr().err


def test_a_log_that_cannot_be_read_costs_no_other(dstage, logs, capfd):
    logs.fails("logs flux-0", 'Error from server (BadRequest): container "stage" is waiting')
    assert dstage("logs", "flux") == 2
    said = capfd.readouterr()
    assert 'flux-0: Error from server (BadRequest): container "stage" is waiting' in said.err
    assert said.out.splitlines() == ["[flux-1] first of 1", "[flux-1] second of 1"]


def test_a_stage_that_is_not_there_is_told(dstage, kubectl, capsys):
    kubectl.on("get pods", listed())
    kubectl.fails("get diffusionstages", 'Error from server (NotFound): "flux" not found')
    assert dstage("logs", "flux") == 2
    assert "there is no such stage here" in capsys.readouterr().err


def test_a_stage_without_pods_has_no_logs(dstage, kubectl, capsys):
    kubectl.on("get pods", listed())
    assert dstage("logs", "flux") == 1
    assert "flux: no container here" in capsys.readouterr().err


def test_a_line_of_any_length_comes_whole(dstage, kubectl, capfdbinary):
    kubectl.on("get pods", listed(pod_json(0)))
    kubectl.on("logs flux-0", "x" * 300_000)
    assert dstage("logs", "flux") == 0
    assert capfdbinary.readouterr().out == b"[flux-0] " + b"x" * 300_000 + b"\n"


# --- following ---


class Cluster:
    """The pods that a follower sees, and the containers that it meets."""

    def __init__(self, kubectl, *pods):
        self.pods = list(pods)
        self.follower = Follower(Kubectl(str(kubectl.program)), self.look, ["--tail=1"])

    async def look(self):
        return self.pods

    def follow(self):
        return aclosing(self.follower.lines(self.pods))


@pytest.fixture(autouse=True)
def _looks_are_frequent(monkeypatch):
    monkeypatch.setattr(follower, "LOOK_EVERY_S", 0.02)


def options(kubectl):
    return [call[3:] for call in kubectl.calls("logs")]


async def test_a_container_that_comes_later_is_followed_from_its_start(kubectl):
    cluster = Cluster(kubectl, make_pod(0))
    kubectl.on("logs flux-0", "old\n", stays="running")
    kubectl.on("logs flux-1", "new\n", stays="running")
    async with cluster.follow() as items:
        assert await anext(items) == Line("flux-0", b"old")
        cluster.pods = [make_pod(0), make_pod(1)]
        assert await anext(items) == Line("flux-1", b"new")
    assert options(kubectl) == [["--follow", "--tail=1"], ["--follow"]]


async def test_a_stream_that_breaks_off_is_taken_up_where_it_ended(kubectl):
    kubectl.fails("logs flux-0", "error: unexpected EOF")
    async with Cluster(kubectl, make_pod(0)).follow() as items:
        for _ in range(2):
            assert await anext(items) == End("flux-0", "error: unexpected EOF")
    first, second, *_ = options(kubectl)
    assert first == ["--follow", "--tail=1"]
    assert second[1].startswith("--since-time=20")


async def test_the_log_of_a_container_that_ended_is_read_once(kubectl):
    kubectl.on("logs flux-0", "last words\n")
    kubectl.on("logs flux-1", "here\n")
    again = make_pod(0, ready=False, state=waiting("CrashLoopBackOff"))
    cluster = Cluster(kubectl, again)
    async with cluster.follow() as items:
        assert await anext(items) == Line("flux-0", b"last words")
        assert await anext(items) == End("flux-0", "")
        cluster.pods = [again, make_pod(1)]
        assert await anext(items) == Line("flux-1", b"here")
    assert [call[1] for call in kubectl.calls("logs")] == ["flux-0", "flux-1"]


async def test_a_look_that_fails_is_told_and_the_streams_go_on(kubectl):
    kubectl.on("logs flux-0", "here\n", stays="running")

    async def fail():
        raise KubectlError("no route to host")

    follower = Follower(Kubectl(str(kubectl.program)), fail, [])
    async with aclosing(follower.lines([make_pod(0)])) as items:
        found = [await anext(items) for _ in range(2)]
    assert Line("flux-0", b"here") in found
    assert any("no route to host" in item.words for item in found if isinstance(item, End))


async def test_too_many_replicas_at_once_are_refused(kubectl, monkeypatch):
    monkeypatch.setattr(follower, "FOLLOWED", 1)
    with pytest.raises(KubeError, match="choose one with --replica"):
        async with Cluster(kubectl, make_pod(0), make_pod(1)).follow() as items:
            await anext(items)
