"""`kubectl dstage` with real replicas: what they tell, and images through a port-forward."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
PLUGIN = "import sys; from diffusion_stage.cli.kube import main; sys.exit(main())"
COMMAND_LINES = """
from pathlib import Path
for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        print(path.read_bytes().replace(b"\\0", b" ").decode())
    except OSError:
        pass  # it ended meanwhile
"""
SIZE = ("--height=64", "--width=64", "--guidance-scale=2.0")


def command(*args):
    return ("env", f"PYTHONPATH={ROOT / 'stage'}", sys.executable, "-c", PLUGIN, *map(str, args))


def forwards(product):
    """The port-forwards that run inside the cluster's namespaces."""
    found = product.cluster.run(sys.executable, "-c", COMMAND_LINES).stdout
    return [line for line in found.splitlines() if "kubectl port-forward" in line]


def test_status_shows_what_the_replicas_tell_of_themselves(product, icons):
    done = product.cluster.run(*command("status", icons))
    assert "icons-0  Ready" in done.stdout
    assert done.stdout.count("cpu:0,cpu:1  0 queued, 0 running") == 2, done.stdout


def test_images_come_through_a_port_forward_that_is_gone_afterwards(product, icons, tmp_path):
    prompts = ("a red circle", "a blue square")
    asked = command("generate", icons, *prompts, "--seed=7", "--steps=4", *SIZE, "--out", tmp_path)
    done = product.cluster.run(*asked, timeout_s=300)
    files = done.stdout.split()
    names = [Path(file).name for file in files]
    assert names == ["01-a-red-circle.png", "02-a-blue-square.png"]
    with Image.open(files[0]) as image:
        assert image.size == (64, 64)
        assert image.text["replica"] in {"icons-0", "icons-1"}
    assert forwards(product) == []


@pytest.mark.slow
def test_a_replica_that_dies_costs_no_image(product, icons, tmp_path, eventually):
    prompts = [f"a red circle, number {n}" for n in range(4)]
    asked = command("generate", icons, *prompts, "--steps=300", "--json", *SIZE, "--out", tmp_path)
    with product.cluster.popen(*asked, stdout=subprocess.PIPE, text=True) as running:
        pod = eventually(lambda: busy(product), 120)
        product.signal(pod, product.workers(pod)[0]["pid"], signal.SIGKILL)
        outcomes = json.loads(running.stdout.read())
    assert running.returncode == 0
    assert [one["error"] for one in outcomes] == [None] * 4
    assert max(one["attempts"] for one in outcomes) > 1
    assert forwards(product) == []
    product.wait_until_ready(icons)


def busy(product):
    """A replica that has requests under way."""
    for pod in ("icons-0", "icons-1"):
        path = f"/api/v1/namespaces/default/pods/{pod}:8080/proxy/status"
        if json.loads(product.kubectl("get", "--raw", path))["load"]["running"]:
            return pod
    return None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_generate_that_is_ended_leaves_no_port_forward(
    product, icons, tmp_path, eventually, number
):
    asked = command("generate", icons, "a red circle", "--steps=900", *SIZE, "--out", tmp_path)
    with product.cluster.popen(*asked, stderr=subprocess.PIPE) as running:
        threading.Thread(target=running.stderr.read).start()
        eventually(lambda: forwards(product), 60)
        running.send_signal(number)
        running.wait(20)
    eventually(lambda: not forwards(product), 5)
