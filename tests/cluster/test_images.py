"""Archives as containerd takes them: a complete one, and one that lacks what the node has."""

import io
import tarfile

import pytest

import images
from images import oci

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]  # the base is made of Debian packages
NAME = "docker.io/diffusionstage/thin:test"


@pytest.fixture(scope="module")
def python():
    return images.pybase()


@pytest.fixture
def thin(python, tmp_path):
    """The base with one file more, less the base."""
    base = oci.read(python.archive)
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as tar:
        entry = tarfile.TarInfo("hello.py")
        entry.size, entry.mode = 21, 0o644
        tar.addfile(entry, io.BytesIO(b"print('from the top')"))
    top = oci.Layer(oci.digest_of(layer), layer.stat().st_size, oci.LAYER, layer, 0)
    diff_ids = [*base.config["rootfs"]["diff_ids"], top.digest]
    config = {**base.config, "rootfs": {"type": "layers", "diff_ids": diff_ids}, "history": []}
    without = frozenset(each.digest for each in base.layers)
    contents = oci.Contents(config, (*base.layers, top))
    archive = oci.write(contents, NAME, tmp_path / "thin.tar", without=without)
    return images.Image(NAME, archive, python.archive)


def output_of(cluster, name, image, *command):
    """What a pod prints that runs the command as a user without rights on a read-only root."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": list(command),
        "securityContext": {"runAsUser": 10001, "readOnlyRootFilesystem": True},
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
    )
    phase = "--for=jsonpath={.status.phase}=Succeeded"
    cluster.kubectl("wait", f"pod/{name}", phase, "--timeout=60s")
    printed = cluster.kubectl("logs", name)
    cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force")
    return printed


def test_the_stand_in_has_a_python_that_runs_without_rights(cluster, python):
    images.load(cluster, python)
    code = "import os, sys; print(sys.version_info[:2] >= (3, 11), os.getuid())"
    assert output_of(cluster, "stand-in", python.name, "python3", "-c", code) == "True 10001\n"


def test_an_archive_without_the_layers_that_the_node_has_runs(cluster, python, thin):
    images.load(cluster, python)
    assert thin.archive.stat().st_size < 100_000
    images.load(cluster, thin)
    assert output_of(cluster, "thin", NAME, "python3", "/hello.py") == "from the top\n"
