"""`kubectl dstage` as a person types it, found by a real kubectl in the PATH."""

import json
import os
import signal
import subprocess
import sys

import pytest

from diffusion_stage.cli.kube.errors import MissingKindError, kubectl_error
from tests.cluster.operator.conftest import ROOT
from tests.cluster.operator.stages import DEAD_WORKER, template, until

pytestmark = pytest.mark.cluster
SCRIPT = """#!{python}
import sys
sys.path.insert(0, {stage!r})
from diffusion_stage.cli.kube import main
sys.exit(main())
"""


class Plugin:
    """Runs it inside the cluster's network; `flags` go with each command."""

    def __init__(self, cluster, folder, *flags):
        self._cluster = cluster
        self._folder = folder
        self._flags = flags
        script = folder / "kubectl-dstage"
        script.write_text(SCRIPT.format(python=sys.executable, stage=str(ROOT / "stage")))
        script.chmod(0o755)

    def __call__(self, *args):
        return self._cluster.run(*self._command(args), env=self._environment, check=False)

    def start(self, *args):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return self._cluster.popen(*self._command(args), env=self._environment, **pipes)

    def for_user(self, kubeconfig):
        return Plugin(self._cluster, self._folder, "--kubeconfig", kubeconfig)

    def _command(self, args):
        return ("kubectl", "dstage", *args, *self._flags)

    @property
    def _environment(self):
        return {"PATH": f"{self._folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def dstage(installed, tmp_path):
    return Plugin(installed, tmp_path)


@pytest.fixture
def user(installed, tmp_path):
    """Makes the kubeconfig of an account that may do what the rules say, and nothing else."""

    def make(name, *rules):
        installed.kubectl("create", "serviceaccount", name)
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        installed.apply(role | {"metadata": {"name": name, "namespace": "default"}, "rules": rules})
        account = f"--serviceaccount=default:{name}"
        installed.kubectl("create", "rolebinding", name, f"--role={name}", account)
        config = json.loads(installed.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": installed.kubectl("create", "token", name).strip()}
        path = tmp_path / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    return make


def rule(group, resources, *verbs):
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def test_a_stage_that_serves_is_shown_with_its_replicas_and_their_loads(operator, stages, dstage):
    stages.make("shown", replicas=2)
    done = dstage("status", "shown")
    assert done.returncode == 0, done.stderr
    assert "default/shown  Ready: AllReplicasReady  2/2 replicas" in done.stdout
    assert "└─ shown-1  Ready" in done.stdout
    assert done.stdout.count("cpu:0,cpu:1  3 queued, 2 running") == 2
    assert "\x1b" not in done.stdout


def test_a_death_is_shown_under_its_replica_and_among_the_events(operator, stages, dstage):
    stages.make("shot", replicas=2)
    stages.ask("shot-1", DEAD_WORKER)
    until(lambda: stages.status("shot")["restarts"]["total"] == 1)
    stages.wait("shot")
    done = dstage("status", "shot")
    replica, _, events = done.stdout.partition("└─ shot-1")[2].partition("Events, newest last")
    assert "ago: WorkerDied, exit 71, rank 1, cpu:1, signal 9 (SIGKILL): worker 1 was" in replica
    assert "WorkerDied  shot-1: WorkerDied (exit 71, rank 1, cpu:1, signal 9)" in events
    (tree,) = json.loads(dstage("status", "shot", "-o", "json").stdout)
    death = tree["replicas"][1]["last_death"]
    assert (death["exit_code"], death["rank"], death["signal"]) == (71, 1, 9)


def test_a_stage_that_cannot_start_is_shown_with_the_cause_and_the_next_step(
    operator, stages, dstage
):
    stages.make("broken", ready=False, model={"uri": "/models/none"})
    until(lambda: "kubelet tries again" in stages.condition("broken")["message"])
    done = dstage("status", "broken")
    assert done.returncode == 1
    assert "not Ready: ModelUnavailable" in done.stdout
    assert "next: fix spec.model" in done.stdout
    assert "└─ broken-0  CrashLoop" in done.stdout
    assert "kubelet tries again 10s after the end\n" in done.stdout
    assert "last death" in done.stdout


def test_all_stages_are_shown_and_one_that_is_not_ready_is_told_by_the_exit_code(
    operator, stages, dstage
):
    stages.make("fine", replicas=0)
    stages.make("greedy", ready=False, accelerator={"count": 64})
    until(lambda: stages.condition("greedy")["reason"] == "InsufficientCapacity")
    done = dstage("status", "-A")
    assert done.returncode == 1
    assert "default/fine  Ready: ScaledToZero" in done.stdout
    assert "└─ greedy-0  Pending" in done.stdout
    assert dstage("status", "-n", "kube-system").stdout.startswith("no stages here")


def test_what_is_not_there_or_not_allowed_is_told_in_kubectls_own_words(dstage, user):
    done = dstage("status", "nobody")
    assert done.returncode == 2
    assert 'diffusionstages.diffusionstage.io "nobody" not found' in done.stderr
    stranger = dstage.for_user(user("stranger"))
    done = stranger("status")
    assert done.returncode == 2
    assert "a right is missing" in done.stderr
    assert 'cannot list resource "diffusionstages"' in done.stderr


def test_kubectls_words_for_a_kind_that_is_not_installed_are_known(installed):
    done = installed.run("kubectl", "get", "nothings.diffusionstage.io", check=False)
    assert isinstance(kubectl_error(done.stderr), MissingKindError), done.stderr


def test_without_a_right_to_pods_the_rest_is_shown(operator, stages, dstage, user):
    stages.make("partly")
    reader = user("reader", rule("diffusionstage.io", ["diffusionstages"], "get"))
    done = dstage.for_user(reader)("status", "partly")
    assert done.returncode == 0
    assert "pods cannot be read" in done.stdout
    assert "└─ partly-0  Ready" in done.stdout
    assert "admin port: no answer" in done.stdout


def test_logs_of_all_replicas_are_told_apart(operator, stages, dstage):
    stages.make("chatty", replicas=2, podTemplate=chatty())
    done = dstage("logs", "chatty")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[chatty-0] I am chatty-0", "[chatty-1] I am chatty-1"]
    assert dstage("logs", "chatty", "--replica=1").stdout == "[chatty-1] I am chatty-1\n"
    stages.ask("chatty-1", DEAD_WORKER)
    until(lambda: stages.status("chatty")["restarts"]["total"] == 1)
    assert dstage("logs", "chatty", "--previous").stdout == "[chatty-1] I am chatty-1\n"


@pytest.mark.slow
def test_logs_are_followed_into_new_containers(operator, stages, dstage, installed):
    stages.make("followed", podTemplate=chatty())
    with dstage.start("logs", "followed", "-f") as following:
        assert following.stdout.readline() == "[followed-0] I am followed-0\n"
        stages.ask("followed-0", DEAD_WORKER)
        assert following.stdout.readline() == "[followed-0] I am followed-0\n"
        installed.kubectl("delete", "pod", "followed-0", "--grace-period=0", "--force")
        assert following.stdout.readline() == "[followed-0] I am followed-0\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(10) == 130


def chatty():
    """Says its name, so that there is a log."""
    pod = template()
    (container,) = pod["spec"]["containers"]
    python, program = container["command"]
    say = f'echo "I am $(hostname)"; exec {python} {program} "$@"'
    container["command"] = ["/usr/bin/bash", "-c", say, "stage"]
    return pod


@pytest.mark.slow
def test_restart_replaces_all_replicas_and_waits_for_it(operator, stages, dstage):
    stages.make("again", replicas=2)
    before = stages.pods("again")
    done = dstage("restart", "again", "--wait", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    after = stages.pods("again")
    assert after.keys() == before.keys()
    assert all(after[pod][0] != before[pod][0] for pod in before)


@pytest.mark.slow
def test_a_suspended_stage_runs_nothing_until_it_is_resumed(operator, stages, dstage):
    stages.make("paused")
    assert dstage("suspend", "paused").returncode == 0
    until(lambda: not stages.pods("paused"))
    done = dstage("status", "paused")
    assert done.returncode == 1
    assert "next: kubectl dstage resume paused" in done.stdout
    assert dstage("resume", "paused").returncode == 0
    stages.wait("paused")


def test_generate_tells_that_no_replica_is_ready(operator, stages, dstage):
    stages.make("empty", replicas=0)
    done = dstage("generate", "empty", "a cat")
    assert done.returncode == 1
    assert "no replica of empty is ready: kubectl dstage status empty" in done.stderr


@pytest.mark.slow
def test_a_change_of_what_is_watched_is_shown(operator, stages, dstage):
    stages.make("watched")
    with dstage.start("status", "watched", "--watch") as watching:
        lines = iter(watching.stdout.readline, "")
        assert "Ready: AllReplicasReady" in next(lines)
        stages.ask("watched-0", DEAD_WORKER)
        assert any("last death" in line for line in lines)
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(10) == 130
