from datetime import timedelta

import pytest

from diffusion_operator.replicas import LISTED, replica_statuses
from tests.operator.builders import (
    CREATING,
    NOW,
    WORKER_DIED,
    ended,
    make_pod,
    observed,
    waiting,
)

AT = "2026-01-01T12:00:00Z"


def lines(*pods, old=None, now=NOW):
    return replica_statuses(observed(*pods), old or {}, now)


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (make_pod(ready=True), "Ready"),
        (make_pod(ready=True, deletionTimestamp="t"), "Stopping"),
        (make_pod(), "Loading"),
        (make_pod(state=CREATING), "Starting"),
        (make_pod(state=waiting("CrashLoopBackOff")), "CrashLoop"),
        (make_pod(state=waiting("ErrImagePull")), "Failed"),
        (make_pod(status={"phase": "Failed", "reason": "Evicted"}), "Failed"),
    ],
)
def test_each_replica_has_one_word_for_what_it_does(pod, state):
    assert [one["state"] for one in lines(pod)] == [state]


def test_a_replica_without_a_node_is_pending():
    pod = make_pod(state=CREATING)
    pod["spec"] = {}
    [line] = lines(pod)
    assert (line["state"], "node" in line) == ("Pending", False)


def test_a_line_says_how_the_replica_died_last_on_which_device():
    [line] = lines(make_pod(1, last=ended(71, message=WORKER_DIED), ready=True))
    assert line == {
        "name": "flux-1",
        "node": "node-1",
        "state": "Ready",
        "since": AT,
        "restarts": 0,
        "reason": "WorkerDied",
        "exitCode": 71,
        "signal": 9,
        "workerRank": 1,
        "device": "cpu:1",
        "message": "worker 1 was killed",
    }


def test_a_state_keeps_the_time_at_which_it_was_first_seen():
    before = {"replicaStatuses": lines(make_pod())}
    later = NOW + timedelta(minutes=1)
    assert lines(make_pod(), old=before, now=later) == before["replicaStatuses"]
    assert lines(make_pod(ready=True), old=before, now=later)[0]["since"] == "2026-01-01T12:01:00Z"


def test_the_list_stops_at_what_the_crd_allows():
    assert len(lines(*map(make_pod, range(LISTED + 1)))) == LISTED
