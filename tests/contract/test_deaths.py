"""The operator and `kubectl dstage` read the same death in the same pod."""

import pytest

from diffusion_operator.failures import failures
from diffusion_stage.cli.kube.deaths import last_death
from diffusion_stage.cli.kube.objects import Pod, StageStatus
from tests.operator.builders import WORKER_DIED, ended, make_pod, observed

EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
NO_GPU = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(last=ended(71, message=WORKER_DIED)),
        make_pod(last=ended(71, message=WORKER_DIED, reason="OOMKilled")),
        make_pod(last=ended(72, message="the last lines\n")),
        make_pod(last=ended(1, message="ValueError: bad")),
        make_pod(last=ended(1, reason="")),
        make_pod(last=ended(128, reason="ContainerCannotRun", message="no such program")),
        make_pod(last=ended(137, reason="OOMKilled")),
        make_pod(last=ended(139)),
        make_pod(last=ended(70, message='{"reason": "no, really!", "rank": 1}')),
        make_pod(last=ended(70, message='{"reason": "Hang", "rank": "one"}')),
        make_pod(last=ended(70, message='{"rank": 1}')),
        make_pod(last=ended(73, message='{"reason": "Hang", "rank": 0, "later": true}')),
        make_pod(state=ended(137), status=EVICTED),
        make_pod(state=ended(71, message=WORKER_DIED), status=NO_GPU),
        make_pod(last=ended(71, message=WORKER_DIED), status=EVICTED),
        make_pod(last=ended(0)),
        make_pod(last=ended(137), deletionTimestamp="2026-01-01T11:59:30Z"),
    ],
)
def test_a_death_has_the_same_facts_in_the_status_and_in_the_plug_in(pod):
    told = failures(observed(pod))
    death = last_death("flux-0", Pod.model_validate(pod), StageStatus(), None)
    facts = [
        (one.reason, one.exit_code, one.signal, one.worker_rank, one.device, one.message)
        for one in told
    ]
    assert facts == [
        (one.reason, one.exit_code, one.signal, one.rank, one.device, one.message)
        for one in [death]
        if one
    ]
