"""A real cluster of two nodes: it schedules, runs, serves names, and takes images."""

import hashlib
import signal
import sys

import pytest

from testcluster import Cluster, CommandError, containerd, pauseimage
from testcluster.binaries import provide

pytestmark = pytest.mark.cluster
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def two_nodes():
    with Cluster(nodes=2, gpus=4) as running:
        yield running


def pod(name, **spec):
    container = {"name": "sleeper", "image": containerd.PAUSE, "imagePullPolicy": "Never", **spec}
    body = {"containers": [container], "terminationGracePeriodSeconds": 0}
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def wait_for(cluster, condition, *pods):
    names = [f"pod/{name}" for name in pods]
    cluster.kubectl("wait", f"--for=condition={condition}", "--timeout=60s", *names)


def delete(cluster, *pods):
    cluster.kubectl("delete", "pod", *pods, "--grace-period=0", "--force")


def test_each_node_claims_its_gpus(two_nodes):
    nodes = [two_nodes.get("node", f"node-{n}")["status"]["allocatable"] for n in (1, 2)]
    assert [node[GPU] for node in nodes] == ["4", "4"]


def test_pods_are_placed_by_their_gpus(two_nodes):
    claim = {"resources": {"limits": {GPU: 4}}}
    two_nodes.apply(pod("first", **claim), pod("second", **claim))
    wait_for(two_nodes, "Ready", "first", "second")
    placed = {two_nodes.get("pod", name)["spec"]["nodeName"] for name in ("first", "second")}
    two_nodes.apply(pod("third", **claim))
    wait_for(two_nodes, "PodScheduled=False", "third")
    delete(two_nodes, "first", "second", "third")
    assert placed == {"node-1", "node-2"}


def test_an_image_that_was_loaded_runs(two_nodes, tmp_path):
    image, archive = "docker.io/testcluster/loaded:1", tmp_path / "loaded.tar"
    pauseimage.write(provide() / "pause", image, archive)
    two_nodes.load_image(archive)
    two_nodes.apply(pod("loaded", image=image))
    wait_for(two_nodes, "Ready", "loaded")
    delete(two_nodes, "loaded")


def test_every_node_has_a_layer_after_its_image_was_loaded(two_nodes, tmp_path):
    program, archive = (provide() / "pause").read_bytes(), tmp_path / "same.tar"
    archive.write_bytes(pauseimage.archive(program, "docker.io/testcluster/same:1"))
    two_nodes.load_image(archive)
    layer = hashlib.sha256(pauseimage.tar({"pause": program}, mode=0o755)).hexdigest()
    assert two_nodes.has_blob(f"sha256:{layer}")
    assert not two_nodes.has_blob(f"sha256:{'0' * 64}")


def test_an_archive_that_is_none_is_refused_by_name(two_nodes, tmp_path):
    broken = tmp_path / "broken.tar"
    broken.write_text("not an archive")
    with pytest.raises(CommandError, match=r"broken\.tar"):
        two_nodes.load_image(broken)


def test_a_ready_pod_has_a_name_in_the_dns(two_nodes):
    ports = [{"port": 80}]
    spec = {"selector": {"app": "named"}, "clusterIP": "None", "ports": ports}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "named"}, "spec": spec}
    two_nodes.apply(pod("named"), service)
    wait_for(two_nodes, "Ready", "named")
    script = (
        "import socket, time\n"
        "for _ in range(100):\n"
        "    try: print(socket.gethostbyname('named')); break\n"
        "    except OSError: time.sleep(0.1)\n"
    )
    address = two_nodes.run(sys.executable, "-c", script).stdout.strip()
    pod_address = two_nodes.get("pod", "named")["status"]["podIP"]
    delete(two_nodes, "named")
    assert address == pod_address


def test_a_command_that_fails_says_why(two_nodes):
    with pytest.raises(CommandError, match='"nothing" not found'):
        two_nodes.kubectl("get", "pod", "nothing")


def test_a_command_that_is_not_there_is_named(two_nodes):
    with pytest.raises(CommandError, match="no such command inside the cluster: nonsense"):
        two_nodes.run("nonsense")


def test_a_command_that_takes_too_long_is_ended(two_nodes):
    with pytest.raises(CommandError, match=r"did not end in 0\.5 s"):
        two_nodes.run("sleep", "1234", timeout_s=0.5)
    running = two_nodes.run("ps", "-e", "-o", "args").stdout.splitlines()
    assert "sleep 1234" not in running


def test_an_object_that_is_not_there_is_empty(two_nodes):
    assert two_nodes.get("configmap", "nothing") == {}


def test_a_signal_reaches_a_started_command(two_nodes):
    script = "trap 'exit 7' TERM; echo started; while :; do sleep 0.05; done"
    with two_nodes.popen("sh", "-c", script, stdout=-1, text=True) as started:
        assert started.stdout.readline() == "started\n"
        started.send_signal(signal.SIGTERM)
        assert started.wait(10) == 7


def test_a_program_inside_finds_its_cluster(two_nodes):
    script = "from testcluster import Cluster; print(Cluster.current().kubectl('get', 'nodes'))"
    assert "node-2" in two_nodes.run(sys.executable, "-c", script).stdout


def test_helm_is_current_and_keeps_to_the_clusters_folder(two_nodes):
    assert "NAME" in two_nodes.helm("list", "--all-namespaces")
    assert two_nodes.environment()["HELM_CACHE_HOME"].startswith(str(two_nodes.layout.root))


def test_the_kernel_settings_of_the_machine_are_out_of_the_kubelets_reach(two_nodes):
    mounts = two_nodes.run("cat", "/proc/self/mountinfo").stdout
    assert "/proc/sys/vm/overcommit_memory" in mounts
    assert "/proc/sys/kernel/panic_on_oops" in mounts
