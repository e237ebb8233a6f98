"""The last death of a replica, wherever it is told."""

import pytest

from diffusion_stage.cli.kube.deaths import Death, last_death
from diffusion_stage.cli.kube.objects import ReplicaStatus
from tests.stage.cli.kube.builders import (
    LAST_FAILURE,
    WORKER_DIED,
    ended,
    make_pod,
    make_stage,
)


def death(pod=None, told=None, **status):
    return last_death("flux-0", pod, make_stage(**status).status, told)


def test_a_replica_that_never_died_has_none():
    assert death(make_pod()) is None
    assert death() is None


def test_the_last_words_of_the_container_tell_all():
    found = death(make_pod(last=ended(71, message=WORKER_DIED)))
    assert found.facts == "WorkerDied, exit 71, rank 1, cuda:1, signal 9 (SIGKILL)"
    assert found.message == "worker 1 was killed"
    assert found.time.isoformat() == "2026-01-01T11:59:00+00:00"


@pytest.mark.parametrize(
    ("code", "reason", "facts"),
    [
        (72, "Error", "DeviceOutOfMemory, exit 72"),
        (1, "Error", "Error, exit 1"),
        (137, "OOMKilled", "OOMKilled, exit 137, signal 9 (SIGKILL)"),
        (139, "Error", "Killed, exit 139, signal 11 (SIGSEGV)"),
        (255, "Error", "Killed, exit 255, signal 127"),
    ],
)
def test_without_last_words_the_exit_code_tells_the_reason(code, reason, facts):
    found = death(make_pod(last=ended(code, reason=reason, message="the last lines\n")))
    assert found.facts == facts
    assert found.message == "the last lines"


def test_the_kernels_word_for_memory_comes_before_the_stages():
    found = death(make_pod(last=ended(71, reason="OOMKilled", message=WORKER_DIED)))
    assert found.reason == "OOMKilled"


def test_an_end_without_an_error_and_the_end_of_a_leaving_pod_are_no_deaths():
    assert death(make_pod(last=ended(0))) is None
    leaving = make_pod(last=ended(137), deletionTimestamp="2026-01-01T11:59:30Z")
    assert death(leaving) is None


def test_a_death_that_no_pod_shows_any_more_is_told_by_the_status():
    found = death(make_pod(), lastFailure=LAST_FAILURE)
    assert found.facts == "WorkerDied, exit 71, rank 1, cuda:1, signal 9 (SIGKILL)"
    assert death(make_pod(), lastFailure=LAST_FAILURE | {"pod": "flux-1"}) is None


def test_a_death_that_another_replica_followed_is_told_by_the_count():
    one = {"containerID": "c", "time": "2026-01-01T11:00:00Z", "pod": "flux-0"}
    recent = [one | {"reason": "Hang", "exitCode": 73}]
    restarts = {"window": 1, "total": 1, "recent": recent}
    assert death(restarts=restarts).facts == "Hang, exit 73"


def test_the_newest_death_is_told():
    old = ended(70, at="2026-01-01T11:00:00Z")
    new = ended(73, at="2026-01-01T11:58:00Z")
    assert death(make_pod(state=new, last=old)).reason == "Hang"
    pod = make_pod(last=new)
    assert death(pod, lastFailure=LAST_FAILURE).reason == "WorkerDied", "11:59 is later"


def test_of_two_tellings_of_one_death_the_fuller_one_is_shown():
    same = {"containerID": "c", "time": "2026-01-01T11:59:00Z", "pod": "flux-0"}
    restarts = {"recent": [same | {"reason": "WorkerDied", "exitCode": 71}]}
    found = death(make_pod(last=ended(71, message=WORKER_DIED)), restarts=restarts)
    assert found.rank == 1


def test_what_the_operator_tells_of_a_replica_serves_where_nothing_else_does():
    told = {"name": "flux-0", "state": "CrashLoop", "reason": "Hang", "exitCode": 73}
    found = death(told=ReplicaStatus.model_validate(told))
    assert found == Death("Hang", exit_code=73)
