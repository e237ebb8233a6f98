from datetime import timedelta

from diffusion_operator.status import ENDPOINTS, Pass, compute_status, unreadable
from tests.operator.builders import NOW, WORKER_DIED, ended, make_pod, make_stage, observed

STAGE = make_stage(replicas=2)
DEAD = make_pod(1, last=ended(71, message=WORKER_DIED))


def status(*pods, old=None, now=NOW):
    found = Pass(observed(*pods), obstacle=None, warning=None, old=old or {}, now=now)
    return compute_status(STAGE, found)


def test_counts_and_columns_are_there_from_the_first_write():
    first = status()
    names = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    assert [first[name] for name in names] == [0, 0, 0, 0]
    assert first["restarts"] == {"window": 0, "total": 0, "budgetRemaining": 5, "recent": []}
    assert set(first["printed"].values()) == {"<none>"}
    assert first["observedGeneration"] == 3


def test_replicas_are_counted_by_readiness_and_revision():
    found = status(make_pod(0, ready=True), make_pod(1, ready=True, revision="old"), make_pod(2))
    names = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    assert [found[name] for name in names] == [3, 2, 2, 2]


def test_each_replica_has_an_address_of_its_own():
    found = status(make_pod(0, ready=True), make_pod(1))
    assert found["address"] == "tcp://flux.ns.svc:5555"
    assert found["selector"] == "diffusionstage.io/stage=flux"
    assert found["endpoints"] == [
        {
            "name": f"flux-{n}",
            "address": f"tcp://flux-{n}.flux-pods.ns.svc:5555",
            "ready": n == 0,
            "revision": "new",
        }
        for n in range(2)
    ]


def test_endpoints_stop_at_what_the_crd_allows():
    assert len(status(*map(make_pod, range(ENDPOINTS + 1)))["endpoints"]) == ENDPOINTS


def test_the_last_failure_says_what_died_where_and_of_what():
    found = status(make_pod(0, ready=True), DEAD)
    assert found["lastFailure"] == {
        "time": "2026-01-01T11:59:00Z",
        "pod": "flux-1",
        "node": "node-1",
        "reason": "WorkerDied",
        "exitCode": 71,
        "signal": 9,
        "workerRank": 1,
        "device": "cpu:1",
        "revision": "new",
        "message": "worker 1 was killed",
    }
    assert found["printed"] == {
        "reason": "WorkerDied",
        "exitCode": "71",
        "workerRank": "1",
        "device": "cpu:1",
        "pod": "flux-1",
    }


def test_rank_zero_is_a_rank():
    zero = WORKER_DIED.replace('"rank":1', '"rank":0')
    assert status(make_pod(last=ended(71, message=zero)))["printed"]["workerRank"] == "0"


def test_the_last_failure_outlives_its_pod_and_gives_way_to_a_newer_one():
    before = status(DEAD)
    assert status(make_pod(1, ready=True), old=before)["lastFailure"] == before["lastFailure"]
    newer = make_pod(0, last=ended(66, container="c2", at="2026-01-01T12:00:00Z"))
    assert status(newer, DEAD, old=before)["lastFailure"]["exitCode"] == 66


def test_as_long_as_nothing_happens_the_status_stays_the_same():
    before = status(make_pod(0, ready=True), DEAD)
    later = status(make_pod(0, ready=True), DEAD, old=before, now=NOW + timedelta(minutes=5))
    assert later == before


def test_an_unreadable_spec_keeps_what_is_known_and_fills_the_columns():
    before = status(DEAD)
    found = unreadable(4, "spec.engine.new: unknown", old=before, now=NOW)
    assert found["lastFailure"] == before["lastFailure"]
    assert found["observedGeneration"] == 4
    blank = unreadable(1, "m", old={}, now=NOW)
    assert blank["availableReplicas"] == 0
    assert {one["reason"] for one in blank["conditions"]} == {"InvalidSpec"}
