import pytest

from diffusion_operator.failures import failures
from tests.operator.builders import WORKER_DIED, ended, make_pod, observed


def only(pod):
    [found] = failures(observed(pod))
    return found


def test_a_death_carries_the_kubelets_facts_and_the_stages_report():
    found = only(make_pod(1, last=ended(71, message=WORKER_DIED)))
    assert found.describe() == "flux-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9)"
    assert (found.node, found.revision, found.message) == ("node-1", "new", "worker 1 was killed")


@pytest.mark.parametrize(
    ("exit_code", "reason"), [(64, "ConfigInvalid"), (66, "ModelUnavailable"), (73, "Hang")]
)
def test_an_exit_code_speaks_for_a_stage_that_left_no_report(exit_code, reason):
    assert only(make_pod(last=ended(exit_code, message="Traceback"))).reason == reason


def test_a_kill_from_outside_is_told_by_its_signal():
    found = only(make_pod(last=ended(137)))
    assert (found.reason, found.signal) == ("Killed", 9)


def test_the_kernels_word_on_memory_beats_the_stages_guess():
    found = only(make_pod(last=ended(71, reason="OOMKilled", message=WORKER_DIED)))
    assert (found.reason, found.worker_rank) == ("OOMKilled", 1)


def test_of_a_log_the_end_is_kept():
    found = only(make_pod(last=ended(1, message="x" * 2000 + "\nValueError: bad\n")))
    assert found.reason == "Error"
    assert len(found.message) == 1024
    assert found.message.endswith("ValueError: bad")


@pytest.mark.parametrize(
    "message", ["[1]", "{}", '{"reason": 7}', '{"reason": "X", "rank": "one"}', '{"rank": 1}', "{"]
)
def test_a_message_that_is_no_report_is_text(message):
    found = only(make_pod(last=ended(70, message=message)))
    assert (found.reason, found.worker_rank, found.message) == ("EngineDied", None, message)


def test_a_reason_that_no_condition_could_carry_is_not_believed():
    assert (
        only(make_pod(last=ended(70, message='{"reason": "no, really!"}'))).reason == "EngineDied"
    )


def test_numbers_that_the_status_could_not_hold_are_not_believed():
    message = '{"reason": "Hang", "rank": 4294967296}'
    assert only(make_pod(last=ended(73, message=message))).worker_rank is None


def test_a_pod_that_is_deleted_dies_on_request_and_so_does_a_drained_container():
    assert failures(observed(make_pod(last=ended(71), deletionTimestamp="t"))) == []
    assert failures(observed(make_pod(last=ended(0, reason="Completed")))) == []


def test_deaths_come_oldest_first_whichever_pod_they_are_of():
    young = make_pod(0, last=ended(71, container="y", at="2026-01-01T11:59:30Z"))
    old = make_pod(1, last=ended(71, container="o", at="2026-01-01T11:58:00Z"))
    assert [one.pod for one in failures(observed(young, old))] == ["flux-1", "flux-0"]


def test_an_eviction_is_the_reason_of_the_end_that_it_brought_not_of_the_one_before():
    pod = make_pod(
        state=ended(137, container="b", at="2026-01-01T11:59:30Z"),
        last=ended(71, container="a"),
        status={"phase": "Failed", "reason": "Evicted", "message": "node low on memory"},
    )
    assert [one.reason for one in failures(observed(pod))] == ["WorkerDied", "Evicted"]
