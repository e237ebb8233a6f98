from diffusion_operator.observe import Termination, Waiting, observe
from tests.operator.builders import (
    CREATING,
    ended,
    make_pod,
    make_workload,
    observed,
    waiting,
)


def test_replicas_come_in_the_order_of_their_ordinals():
    seen = observed(make_pod(10), make_pod(9))
    assert [one.pod for one in seen.replicas] == ["flux-9", "flux-10"]


def test_a_pod_of_another_owner_is_no_replica_though_it_has_the_label():
    stranger = make_pod(0, ownerReferences=[])
    other = make_pod(1, ownerReferences=[{"kind": "Job", "name": "flux", "controller": True}])
    assert observed(stranger, other).replicas == ()


def test_a_pod_that_is_told_to_stop_does_not_count_as_ready():
    [replica] = observed(make_pod(ready=True, deletionTimestamp="t")).replicas
    assert (replica.is_ready, replica.is_leaving) == (False, True)


def test_the_present_end_comes_before_the_former_one():
    pod = make_pod(state=ended(71, container="b"), last=ended(70, container="a"))
    [replica] = observed(pod).replicas
    assert [end.exit_code for end in replica.ends] == [71, 70]


def test_an_end_without_a_container_is_none():
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    assert observed(make_pod(last=lost)).replicas[0].ends == ()


def test_the_end_of_a_container_is_parsed():
    [replica] = observed(make_pod(last=ended(71, message="m"))).replicas
    assert replica.ends == (
        Termination("containerd://c1", 71, "Error", "m", "2026-01-01T11:59:00Z", ""),
    )


def test_creating_a_container_is_no_news_and_failing_to_is():
    assert observed(make_pod(state=CREATING)).replicas[0].waiting == ()
    pod = make_pod(state=waiting("ErrImagePull", "no such image"))
    assert observed(pod).replicas[0].waiting == (Waiting("stage", "ErrImagePull", "no such image"),)


def test_init_containers_that_cannot_start_are_seen():
    status = {"name": "fetch", "state": waiting("CrashLoopBackOff", "again")}
    pod = make_pod(state=CREATING, status={"initContainerStatuses": [status]})
    assert observed(pod).replicas[0].waiting[0].container == "fetch"


def test_why_no_node_takes_a_pod_is_the_schedulers_word():
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    pod = make_pod(status={"conditions": [said], "containerStatuses": []})
    assert observed(pod).replicas[0].unscheduled == "0/1 nodes are available"


def test_a_failed_pod_tells_why():
    pod = make_pod(status={"phase": "Failed", "reason": "Evicted", "message": "disk"})
    assert observed(pod).replicas[0].pod_failure == "Evicted: disk"


def test_a_new_pod_without_any_status_is_a_replica():
    pod = make_pod(status={}) | {"status": {}}
    assert observed(pod).replicas[0].is_ready is False


def test_the_workload_is_observed_once_its_controller_saw_the_present_generation():
    assert observed().workload.is_observed
    assert not observed(workload=make_workload(observed=False)).workload.is_observed
    assert observe("flux", None, []).workload is None
