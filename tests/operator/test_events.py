from diffusion_operator.events import death_event
from diffusion_operator.failures import failures
from tests.operator.builders import NOW, WORKER_DIED, ended, make_pod, make_stage, observed


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
