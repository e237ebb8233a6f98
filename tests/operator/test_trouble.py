import pytest

from diffusion_operator.trouble import pending, troubles
from tests.operator.builders import (
    CREATING,
    RUNNING,
    WORKER_DIED,
    ended,
    make_pod,
    observed,
    waiting,
)

BACK_OFF = waiting("CrashLoopBackOff", "back-off 20s restarting failed container=stage pod=flux-1")


def only(pod):
    [found] = troubles(observed(pod))
    return found


def test_a_dead_worker_is_told_with_its_place_and_what_happens_next():
    found = only(make_pod(1, state=ended(71, message=WORKER_DIED)))
    assert found.reason == "WorkerDied"
    assert found.text == (
        "flux-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9): worker 1 was killed; "
        "kubelet restarts it"
    )


def test_a_replica_is_in_trouble_until_it_has_started_again():
    dead = ended(71, message=WORKER_DIED)
    assert only(make_pod(last=dead)).text.endswith("it starts again")
    assert troubles(observed(make_pod(last=dead, started=True))) == []
    assert troubles(observed(make_pod(last=dead, ready=True))) == []


def test_a_missing_model_asks_for_a_person_and_says_when_the_next_try_is():
    message = '{"reason": "ModelUnavailable", "msg": "/models/m: no model_index.json"}'
    found = only(make_pod(state=BACK_OFF, last=ended(66, message=message)))
    assert found.reason == "ModelUnavailable"
    assert "/models/m: no model_index.json" in found.text
    assert "kubelet tries again 20s after the end; fix spec.model" in found.text


def test_a_replica_that_dies_again_and_again_is_a_crash_loop_with_its_cause():
    found = only(make_pod(1, state=BACK_OFF, last=ended(71, message=WORKER_DIED)))
    assert found.reason == "CrashLoop"
    assert "WorkerDied (exit 71, rank 1" in found.text


def test_of_a_log_only_the_last_line_is_told():
    found = only(make_pod(state=ended(1, message="Traceback:\n  line\nValueError: bad\n")))
    assert found.text == "flux-0: Error (exit 1): ValueError: bad; kubelet restarts it"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (waiting("ImagePullBackOff", "not found"), "ImagePull"),
        (waiting("InvalidImageName"), "ImagePull"),
        (waiting("CreateContainerConfigError", "secret not found"), "ContainerNotCreated"),
        (waiting("CrashLoopBackOff", "back-off"), "CrashLoop"),
    ],
)
def test_a_container_that_cannot_start_says_why(state, reason):
    assert only(make_pod(state=state)).reason == reason


def test_a_sidecar_in_a_crash_loop_is_named():
    pod = make_pod(state=RUNNING)
    pod["status"]["containerStatuses"].append({"name": "log", "state": BACK_OFF})
    assert "container 'log'" in only(pod).text


def test_an_evicted_pod_is_replaced():
    pod = make_pod(state=ended(137), status={"phase": "Failed", "reason": "Evicted"})
    assert only(pod).reason == "Evicted"


def test_what_waits_for_a_person_comes_first():
    crash = make_pod(0, state=ended(71))
    image = make_pod(1, state=waiting("ErrImagePull"))
    config = make_pod(2, state=ended(64))
    found = troubles(observed(crash, image, config))
    assert [one.reason for one in found] == ["ConfigInvalid", "ImagePull", "WorkerDied"]


def test_a_replica_that_is_told_to_stop_is_in_no_trouble():
    assert troubles(observed(make_pod(state=ended(71), deletionTimestamp="t"))) == []


@pytest.mark.parametrize(
    ("pod", "doing"),
    [
        (make_pod(deletionTimestamp="t"), "flux-0 is stopping"),
        (make_pod(started=True), "flux-0 has started and is not ready"),
        (make_pod(), "flux-0 is loading the model"),
        (make_pod(state=CREATING), "flux-0 is being created"),
    ],
)
def test_a_replica_that_does_not_serve_yet_says_what_it_does(pod, doing):
    assert pending(observed(pod).replicas[0]) == doing
