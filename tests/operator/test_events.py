from diffusion_operator.events import condition_events, death_event
from diffusion_operator.failures import failures
from diffusion_operator.status import Pass, compute_status
from tests.operator.builders import (
    NOW,
    WORKER_DIED,
    ended,
    make_pod,
    make_stage,
    make_workload,
    observed,
    waiting,
)


def event(message=WORKER_DIED):
    pod = make_pod(1, last=ended(71, container="0123456789abcdef01234567", message=message))
    [failure] = failures(observed(pod))
    return death_event(make_stage(), failure, NOW)


def test_a_death_is_a_warning_about_the_stage():
    found = event()
    assert (found["type"], found["reason"]) == ("Warning", "WorkerDied")
    assert found["regarding"]["uid"] == "stage-uid"
    assert found["note"] == (
        "flux-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9): worker 1 was killed"
    )


def test_its_name_comes_from_the_container_so_that_it_is_posted_once():
    assert event()["metadata"]["name"] == "flux.89abcdef01234567"


def test_a_long_report_fits_into_the_note():
    assert len(event("x" * 5000)["note"]) == 1024


def status(*pods, old=None, obstacle=None):
    seen = observed(*pods, workload=make_workload(1))
    found = Pass(seen, obstacle=obstacle, warning=None, old=old or {}, now=NOW)
    return compute_status(make_stage(), found)


def told(old, new):
    events = condition_events(make_stage(), old, new, NOW)
    return [(one["type"], one["action"], one["reason"]) for one in events]


PULL = make_pod(state=waiting("ErrImagePull", "no such image"))
READY = make_pod(ready=True)


def test_trouble_and_its_end_are_told_once_each():
    trouble, well = status(PULL), status(READY)
    assert told({}, trouble) == [("Warning", "Degraded", "ImagePull")]
    assert told(trouble, trouble) == []
    assert told(trouble, well) == [("Normal", "Ready", "AllReplicasReady")]


def test_a_death_has_its_own_event_and_no_second():
    assert told(status(READY), status(make_pod(state=ended(71, message=WORKER_DIED)))) == []


def test_a_pass_that_is_repeated_names_the_event_alike_and_a_later_turn_does_not():
    trouble = status(PULL)
    first, again, later = (
        condition_events(make_stage(), old, trouble, NOW)[0]["metadata"]["name"]
        for old in (status(READY), status(READY), status(READY, old=at_one(status(READY))))
    )
    assert first == again != later


def at_one(found):
    """The same status, reached an hour later."""
    later = [one | {"lastTransitionTime": "2026-01-01T13:00:00Z"} for one in found["conditions"]]
    return found | {"conditions": later}
