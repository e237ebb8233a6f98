"""How clusters begin and end: nothing is left of one, whoever is killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from testcluster import Cluster, StartError, leftovers, locks
from testcluster.layout import Layout

pytestmark = pytest.mark.cluster
LAUNCHER = """
import sys, time
from pathlib import Path
from testcluster import Cluster
with Cluster(Path(sys.argv[1]), nodes=int(sys.argv[2])) as cluster:
    print("up", flush=True)
    time.sleep(600)
"""


@contextmanager
def launched(root, *, nodes):
    """A program that holds a cluster, as a child process."""
    command = [sys.executable, "-c", LAUNCHER, str(root), str(nodes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "up\n"
            yield program
        finally:
            program.kill()


def wait_until_free(root, *, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while locks.holder(Layout(root).lock) is not None:
        assert time.monotonic() < deadline, "the guard goes on"
        time.sleep(0.05)


def test_a_cluster_without_nodes_serves_the_api_and_remembers_nothing(tmp_path):
    for _ in range(2):
        with Cluster(tmp_path, nodes=0) as cluster:
            cluster.kubectl("create", "configmap", "made", "--from-literal=key=value")
            assert cluster.get("configmap", "made")["data"] == {"key": "value"}
            assert leftovers(cluster.id, within_s=0)
        assert leftovers(cluster.id) == []


def test_a_cluster_with_a_node_leaves_nothing(tmp_path):
    """Also in a folder whose name is too long for a socket."""
    root = tmp_path / ("long" * 40)
    with Cluster(root) as cluster:
        assert any("control group" in line for line in leftovers(cluster.id, within_s=0))
    assert leftovers(cluster.id) == []
    assert not list(root.glob("node-*"))


def test_a_cluster_without_a_named_folder_removes_its_own():
    with Cluster(nodes=0) as cluster:
        root = cluster.layout.root
    assert not root.exists()


@pytest.mark.slow
def test_two_clusters_run_at_once(tmp_path):
    with Cluster(tmp_path / "a", nodes=1) as a, Cluster(tmp_path / "b", nodes=1) as b:
        a.kubectl("create", "namespace", "only-a")
        assert b.get("namespace", "only-a") == {}
        assert a.layout.store_link.resolve() != b.layout.store_link.resolve()
    assert leftovers(a.id) + leftovers(b.id) == []


def test_a_program_outside_is_in_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig" / "admin"))
    with pytest.raises(StartError, match="not run inside"):
        Cluster.current()


def test_one_folder_holds_one_cluster(tmp_path):
    with Cluster(tmp_path, nodes=0) as first:
        with pytest.raises(StartError, match="already up"):
            Cluster(tmp_path, nodes=0).start()
        assert first.kubectl("get", "namespace", "default", "-o", "name")


@pytest.mark.parametrize(
    ("number", "nodes"), [(signal.SIGKILL, 1), (signal.SIGTERM, 0), (signal.SIGINT, 0)]
)
def test_a_cluster_ends_with_its_launcher(tmp_path, number, nodes):
    with launched(tmp_path, nodes=nodes) as program:
        program.send_signal(number)
        program.wait(30)
    wait_until_free(tmp_path)
    assert leftovers(Layout(tmp_path).id) == []


def test_a_cluster_ends_with_a_launcher_that_is_killed_during_the_start(tmp_path):
    where = Layout(tmp_path)
    with subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path), "1"]) as program:
        while not where.progress.exists():
            assert program.poll() is None
            time.sleep(0.01)
        program.kill()
    wait_until_free(tmp_path)
    assert leftovers(where.id) == []


def test_stop_cleans_up_after_a_killed_guard(tmp_path):
    cluster = Cluster(tmp_path, nodes=1)
    cluster.start()
    guard = locks.holder(Layout(tmp_path).lock)
    assert guard is not None
    os.kill(guard, signal.SIGKILL)
    cluster.stop()
    assert leftovers(cluster.id) == []


def test_a_command_inside_ends_with_the_cluster(tmp_path):
    with Cluster(tmp_path, nodes=0) as cluster:
        running = cluster.popen("sh", "-c", "echo started; sleep 600", stdout=subprocess.PIPE)
        assert running.stdout.readline() == b"started\n"
    running.stdout.close()
    assert running.wait(10) == -signal.SIGKILL


@pytest.mark.slow
def test_a_part_that_ends_ends_the_cluster(tmp_path):
    with Cluster(tmp_path, nodes=0) as cluster:
        pid = cluster.run("pgrep", "-f", "kubebox etcd").stdout.split()[0]
        cluster.run("kill", pid)
        wait_until_free(tmp_path)
        with pytest.raises(StartError, match="no cluster is up"):
            cluster.kubectl("get", "pods")
    assert "etcd ended with" in (tmp_path / "progress.jsonl").read_text()


def test_a_kept_cluster_is_there_for_the_next_command(tmp_path):
    program = [sys.executable, "-m", "testcluster"]
    folder = ["--root", str(tmp_path)]

    def testcluster(*arguments):
        command = [*program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    try:
        assert testcluster("up", *folder, "--nodes", "0").returncode == 0
        shown = testcluster("kubectl", *folder, "-n", "default", "get", "service", "-o", "name")
        assert shown.stdout == "service/kubernetes\n"
        assert testcluster("exec", *folder, "--", "sh", "-c", "exit 3").returncode == 3
    finally:
        down = testcluster("down", *folder)
    assert (down.returncode, down.stderr) == (0, "")
    assert leftovers(Layout(tmp_path).id) == []


def test_a_launcher_that_is_gone_before_the_guard_hears_its_keep_has_kept_it(tmp_path):
    script = """
import os, signal, sys
from pathlib import Path
from testcluster import Cluster, locks
cluster = Cluster(Path(sys.argv[1]), nodes=0)
cluster.start()
os.kill(locks.holder(cluster.layout.lock), signal.SIGSTOP)
cluster.keep()
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=90)
    guard = locks.holder(Layout(tmp_path).lock)
    assert guard is not None
    os.kill(guard, signal.SIGCONT)
    cluster = Cluster.attach(tmp_path)
    time.sleep(0.5)  # the time in which it would end
    assert cluster.kubectl("get", "namespace", "default", "-o", "name") == "namespace/default\n"
    cluster.stop()
    assert leftovers(cluster.id) == []


def test_a_part_that_cannot_start_is_named_with_its_log(tmp_path):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("kubebox", "coredns", "helm", "pause"):
        (binaries / name).symlink_to(Path("/bin/false"))
    with pytest.raises(StartError, match=r"(etcd|kube-apiserver) ended with 1"):
        Cluster(tmp_path / "cluster", nodes=0, binaries=binaries).start()
    assert leftovers(Layout(tmp_path / "cluster").id) == []
