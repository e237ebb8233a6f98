import pytest

from diffusion_operator.observe import observe
from diffusion_operator.situation import Obstacle, Situation
from diffusion_operator.verdicts import unknown_spec, verdicts
from tests.operator.builders import (
    WORKER_DIED,
    ended,
    make_pod,
    make_stage,
    make_workload,
    observed,
)

REFUSED = Obstacle("PodTemplateRejected", "hostnetwork: not in schema", is_final=True)
BOTH = (make_pod(0, ready=True), make_pod(1, ready=True))


def judge(observation, *, obstacle=None, warning=None, exhausted=(), held=False, **spec):
    stage = make_stage(held=held, **{"replicas": 2} | spec)
    return verdicts(Situation(stage, observation, obstacle, warning), exhausted=list(exhausted))


def told(found):
    return {kind: (verdict.status, verdict.reason) for kind, verdict in found.items()}


def test_all_is_well_when_every_replica_of_the_present_spec_serves():
    assert told(judge(observed(*BOTH))) == {
        "Ready": ("True", "AllReplicasReady"),
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("False", "RolloutComplete"),
        "Degraded": ("False", "AsExpected"),
        "Suspended": ("False", "NotSuspended"),
    }


def test_no_message_is_empty():
    assert all(verdict.message for verdict in judge(observed(*BOTH)).values())


def test_a_dead_replica_makes_it_degraded_and_not_ready_but_still_available():
    found = judge(observed(BOTH[0], make_pod(1, state=ended(71, message=WORKER_DIED))))
    assert told(found) == {
        "Ready": ("False", "WorkerDied"),
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "WaitingForReplicas"),
        "Degraded": ("True", "WorkerDied"),
        "Suspended": ("False", "NotSuspended"),
    }
    assert found["Ready"].message == (
        "1 of 2 replicas ready; flux-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9): "
        "worker 1 was killed; kubelet restarts it"
    )


def test_a_starting_stage_is_not_degraded_and_says_what_it_waits_for():
    found = judge(observed(make_pod(0)))
    assert told(found)["Ready"] == ("False", "WaitingForReplicas")
    assert told(found)["Degraded"] == ("False", "AsExpected")
    assert "flux-0 is loading the model; 1 are not created yet" in found["Ready"].message


def test_ready_waits_for_the_controller_to_see_the_spec():
    behind = observed(*BOTH, workload=make_workload(observed=False))
    assert told(judge(behind))["Ready"][0] == "False"


def test_replicas_of_an_earlier_spec_do_not_make_it_ready():
    stale = observed(make_pod(0, ready=True), make_pod(1, ready=True, revision="old"))
    assert told(judge(stale))["Ready"] == ("False", "RollingUpdate")
    assert told(judge(stale))["Progressing"] == ("True", "NewRevision")


@pytest.mark.parametrize("strategy", [{"type": "OnDelete"}, {"partition": 1}])
def test_replicas_that_the_strategy_leaves_alone_do(strategy):
    stale = observed(make_pod(0, ready=True, revision="old"), make_pod(1, ready=True))
    assert told(judge(stale, updateStrategy=strategy))["Ready"][0] == "True"


def test_pods_that_no_node_takes_wait_for_capacity():
    said = {"type": "PodScheduled", "status": "False", "message": "Insufficient nvidia.com/gpu"}
    pending = make_pod(1, status={"conditions": [said], "containerStatuses": []})
    found = judge(observed(BOTH[0], pending))
    assert told(found)["Ready"] == ("False", "InsufficientCapacity")
    assert told(found)["Progressing"] == ("True", "InsufficientCapacity")
    assert "Insufficient nvidia.com/gpu" in found["Ready"].message


def test_a_refused_spec_has_conditions_of_its_own_and_ready_tells_of_the_replicas():
    found = judge(observed(*BOTH), obstacle=REFUSED)
    assert told(found) == {
        "Ready": ("True", "AllReplicasReady"),
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("False", "PodTemplateRejected"),
        "Degraded": ("True", "PodTemplateRejected"),
        "Suspended": ("False", "NotSuspended"),
    }
    assert "not of the present spec: hostnetwork" in found["Ready"].message


def test_a_spec_refused_from_the_start_names_the_refusal():
    found = judge(observe("flux", None, []), obstacle=REFUSED)
    assert told(found)["Ready"] == ("False", "PodTemplateRejected")
    assert "hostnetwork: not in schema" in found["Ready"].message


def test_a_refusal_that_may_pass_is_progress():
    found = judge(observed(*BOTH), obstacle=Obstacle("ApplyFailed", "webhook", is_final=False))
    assert told(found)["Progressing"] == ("True", "ApplyFailed")
    assert told(found)["Degraded"] == ("False", "AsExpected")


def test_a_suspended_stage_is_not_ready_on_purpose():
    found = told(judge(observed(workload=make_workload(0)), suspend=True))
    assert {found[kind] for kind in ("Ready", "Available", "Progressing")} == {
        ("False", "Suspended")
    }
    assert (found["Degraded"], found["Suspended"]) == (
        ("False", "AsExpected"),
        ("True", "Suspended"),
    )


def test_it_is_suspended_only_once_its_replicas_are_gone():
    found = judge(observed(make_pod(deletionTimestamp="t")), suspend=True)
    assert told(found)["Suspended"] == ("False", "Suspending")


def test_a_held_stage_says_that_nothing_starts_again_and_what_a_person_does():
    found = judge(observed(workload=make_workload(0)), held=True)
    assert told(found)["Ready"] == ("False", "Held")
    assert told(found)["Degraded"] == ("True", "RestartBudgetExhausted")
    assert "spec.restartToken" in found["Ready"].message


def test_a_claim_that_cannot_be_shared_matters_until_all_serve():
    warning = Obstacle("ModelCacheConflict", "claim c", is_final=False)
    found = judge(observed(BOTH[0]), warning=warning)
    assert told(found)["Ready"] == ("False", "ModelCacheConflict")
    assert told(found)["Degraded"] == ("True", "ModelCacheConflict")
    assert "claim c" in found["Ready"].message
    assert told(judge(observed(*BOTH), warning=warning))["Degraded"][0] == "False"


def test_a_rollout_that_its_own_new_replica_blocks_says_so():
    stuck = observed(
        make_pod(0, ready=True, revision="old"), make_pod(1, state=ended(71, message=WORKER_DIED))
    )
    found = judge(stuck)
    assert told(found)["Progressing"] == ("True", "RolloutStuck")
    assert "flux-1: WorkerDied" in found["Progressing"].message


def test_a_stage_scaled_to_zero_is_as_it_should_be_and_serves_nobody():
    found = told(judge(observed(workload=make_workload(0)), replicas=0))
    assert found["Ready"] == ("True", "ScaledToZero")
    assert found["Available"] == ("False", "ScaledToZero")


@pytest.mark.parametrize(
    ("max_unavailable", "needed"), [(1, 9), (20, 1), ("25%", 8), ("1%", 9), ("100%", 1)]
)
def test_available_means_enough_replicas(max_unavailable, needed):
    pods = [make_pod(n, ready=n < needed) for n in range(10)]
    strategy = {"maxUnavailable": max_unavailable}
    enough = judge(observed(*pods), replicas=10, updateStrategy=strategy)
    assert told(enough)["Available"][0] == "True"
    pods[0] = make_pod(0)
    too_few = judge(observed(*pods), replicas=10, updateStrategy=strategy)
    assert told(too_few)["Available"][0] == "False"


def test_too_many_deaths_are_degraded_though_all_serve():
    found = judge(observed(*BOTH), exhausted=["flux-1"])
    assert told(found)["Degraded"] == ("True", "RestartBudgetExhausted")
    assert found["Degraded"].message == (
        "flux-1: the budget of 5 deaths within 3600 s is used up; kubelet restarts it all the same"
    )


def test_a_message_tells_of_three_replicas_and_counts_the_rest():
    pods = [make_pod(n, state=ended(71)) for n in range(5)]
    assert judge(observed(*pods), replicas=5)["Ready"].message.endswith("and 2 more")


def test_of_a_spec_that_cannot_be_read_nothing_is_claimed():
    assert told(unknown_spec("m"))["Ready"] == ("Unknown", "InvalidSpec")
