"""The state of each replica, from what there is to read."""

import pytest

from diffusion_stage.cli.kube.admin import answer
from diffusion_stage.cli.kube.replicas import replicas
from tests.stage.cli.kube.builders import (
    NOW,
    WORKER_DIED,
    ended,
    endpoint,
    make_pod,
    make_stage,
    waiting,
)

ADMIN = (
    '{"name": "flux-0", "phase": "serving", "uptime_s": 81.2, "death": null, "pipeline": "Flux",'
    '"load": {"waiting": 3, "running": 2, "materializing": 1}, "batches": {"2": 7},'
    '"workers": [{"rank": 0, "device": "cuda:0", "busy_since": 1.5, "step": 3},'
    '{"rank": 1, "device": "cuda:1", "busy_since": null, "step": null}]}'
)


def only(pod, **answers):
    """The one replica of a stage with that pod."""
    stage = make_stage(spec={"replicas": 1}, endpoints=[])
    (found,) = replicas(stage, {pod.name: pod}, answers)
    return found


def without_node(message):
    unscheduled = {"type": "PodScheduled", "status": "False", "message": message}
    pod = make_pod(status={"conditions": [unscheduled], "containerStatuses": []})
    return pod.model_copy(update={"spec": pod.spec.model_copy(update={"node_name": ""})})


BACK_OFF = waiting(
    "CrashLoopBackOff", "back-off 40s restarting failed container=stage pod=flux-0_art(1)"
)
STATES = [
    (make_pod(), "Ready", ""),
    (make_pod(deletionTimestamp="2026-01-01T11:59:30Z"), "Stopping", ""),
    (make_pod(ready=False), "Loading", ""),
    (make_pod(ready=False, state=waiting("ContainerCreating")), "Starting", ""),
    (make_pod(ready=False, state=BACK_OFF), "CrashLoop", "kubelet tries again 40s after the end"),
    (
        make_pod(ready=False, state=waiting("ErrImagePull", "no such image")),
        "Failed",
        "container stage: ErrImagePull: no such image",
    ),
    (make_pod(ready=False, state=ended(71)), "Failed", ""),
    (
        make_pod(status={"phase": "Failed", "reason": "Evicted", "message": "low on disk"}),
        "Failed",
        "Evicted: low on disk",
    ),
    (without_node("0/3 nodes are available"), "Pending", "0/3 nodes are available"),
]


@pytest.mark.parametrize(("pod", "state", "message"), STATES)
def test_a_pod_shows_the_state_of_its_replica(pod, state, message):
    found = only(pod)
    assert (found.state, found.message) == (state, message)


def test_a_replica_that_has_started_and_does_not_serve_is_starting():
    pod = make_pod(ready=False)
    (container,) = pod.status.container_statuses
    status = pod.status.model_copy(
        update={"container_statuses": (container.model_copy(update={"started": True}),)}
    )
    assert only(pod.model_copy(update={"status": status})).state == "Starting"


def test_an_init_container_that_fails_is_told():
    setup = {"name": "setup", "state": waiting("CrashLoopBackOff", "back-off 10s restarting")}
    init = {"initContainerStatuses": [setup]}
    pod = make_pod(ready=False, status=init | {"containerStatuses": []})
    assert only(pod).message.startswith("container setup: CrashLoopBackOff: back-off")


def test_the_admin_port_tells_devices_and_load():
    found = only(make_pod(), **{"flux-0": answer(ADMIN)})
    assert found.devices == ("cuda:0", "cuda:1")
    assert (found.load.waiting, found.load.running, found.load.materializing) == (3, 2, 1)
    assert (found.phase, found.uptime_s, found.admin_trouble) == ("serving", 81.2, "")


def test_a_replica_that_loads_its_model_has_no_load_yet():
    found = only(make_pod(ready=False), **{"flux-0": answer('{"phase":"startup","uptime_s":2}')})
    assert (found.phase, found.load, found.admin_trouble) == ("startup", None, "")


@pytest.mark.parametrize("said", ["", "<html>", '{"phase": 1, "uptime_s": 2}', "[]"])
def test_an_answer_that_is_no_status_costs_nothing_else(said):
    found = only(make_pod(), **{"flux-0": answer(said)})
    assert found.state == "Ready"
    assert found.admin_trouble.startswith("not the status of a stage: ")


def test_replicas_that_have_no_pod_yet_are_shown_in_the_order_of_their_numbers():
    stage = make_stage(spec={"replicas": 11}, endpoints=[])
    found = replicas(stage, {"flux-1": make_pod(1)}, {})
    assert [one.name for one in found] == [f"flux-{n}" for n in range(11)]
    assert [one.state for one in found][:3] == ["Pending", "Ready", "Pending"]
    assert found[10].message == "it has no pod yet"


def test_without_pods_the_endpoints_say_who_serves():
    stage = make_stage(endpoints=[endpoint(0), endpoint(1, ready=False)])
    found = replicas(stage, {}, {})
    assert [one.state for one in found] == ["Ready", "Starting"]
    assert found[0].node == ""


def test_the_operators_own_list_comes_first_and_pods_fill_in():
    told = {
        "name": "flux-0",
        "node": "node-7",
        "state": "CrashLoop",
        "since": "2026-01-01T11:58:00Z",
        "reason": "WorkerDied",
        "exitCode": 71,
        "restarts": 4,
        "message": "worker 1 was killed",
    }
    stage = make_stage(replicaStatuses=[told], spec={"replicas": 1}, endpoints=[])
    pod = make_pod(ready=False, last=ended(71, message=WORKER_DIED))
    (found,) = replicas(stage, {"flux-0": pod}, {})
    assert (found.state, found.node, found.restarts) == ("CrashLoop", "node-7", 4)
    assert (NOW - found.since).total_seconds() == 120
    assert found.last_death.rank == 1, "the pod tells more"


def test_why_a_replica_waits_is_told_by_its_pod_beside_the_operators_state():
    told = {"name": "flux-0", "state": "Failed", "message": "last words", "exitCode": 70}
    stage = make_stage(replicaStatuses=[told], spec={"replicas": 1}, endpoints=[])
    pod = make_pod(ready=False, state=waiting("ErrImagePull", "no such image"))
    (found,) = replicas(stage, {"flux-0": pod}, {})
    assert found.message == "container stage: ErrImagePull: no such image"
    assert found.last_death.message == "last words"


def test_a_state_that_this_version_does_not_know_is_shown_as_it_is():
    told = {"name": "flux-0", "state": "Migrating", "somethingNew": 1}
    stage = make_stage(replicaStatuses=[told], spec={"replicas": 1}, endpoints=[])
    (found,) = replicas(stage, {}, {})
    assert found.state == "Migrating"
