"""Command lines and configurations that the parts are started with."""

import tomllib
from pathlib import Path

import pytest

from testcluster import containerd, controlplane, kubelet, network
from testcluster.layout import Layout
from testcluster.pauseimage import archive, tar

WHERE = Layout(Path("/somewhere"))


@pytest.mark.parametrize(
    "part",
    [
        controlplane.etcd,
        controlplane.apiserver,
        controlplane.controller_manager,
        controlplane.scheduler,
        controlplane.proxy,
    ],
)
def test_flags_of_a_part_are_words(part):
    assert all(word.startswith("--") and "=" in word for word in part(WHERE))


def test_two_nodes_share_no_address_subnet_or_socket():
    for of in (network.node_ip, network.pod_subnet, containerd.socket):
        assert of(1) != of(2)


def test_two_clusters_share_no_control_group():
    assert kubelet.group("testcluster-a", 1) != kubelet.group("testcluster-b", 1)


def test_containerd_reads_its_configuration():
    text = containerd.config(
        1, store=Path("/store"), plugins=Path("/plugins"), networks=Path("/networks")
    )
    config = tomllib.loads(text)
    assert config["root"] == "/store"
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["sandbox_image"] == containerd.PAUSE


def test_the_dns_reads_its_zone_from_the_cluster():
    text = controlplane.corefile(WHERE)
    assert f"kubeconfig {WHERE.kubeconfig_of('coredns')}" in text
    assert "{{" not in text


def test_an_image_whose_name_moved_on_is_dangling():
    listing = """\
REF               TYPE        DIGEST       SIZE
docker.io/a:1     application sha256:new   1 MiB
sha256:new-config application sha256:new   1 MiB
sha256:old-config application sha256:old   1 MiB
"""
    assert containerd.dangling(listing) == ["sha256:old-config"]


def test_content_lies_where_containerd_keeps_it():
    found = containerd.blob(Path("/store"), "sha256:abc")
    assert found == Path("/store/io.containerd.content.v1.content/blobs/sha256/abc")


def test_the_same_program_makes_the_same_image():
    assert archive(b"program", "name:1") == archive(b"program", "name:1")
    assert tar({"a": b"1"}, mode=0o644) != tar({"a": b"2"}, mode=0o644)
