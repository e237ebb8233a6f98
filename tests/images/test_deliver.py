import pytest

import images
from images import Image, deliver, oci
from images.builder import rename
from images.errors import TargetError
from tests.images.conftest import BASE, CODE, PACKAGES, save

NAME = "docker.io/diffusionstage/stage:1"


class FakeCluster:
    """A content store that takes an archive only if it then has all layers."""

    def __init__(self):
        self.blobs = set()
        self.imported = []

    def has_blob(self, digest):
        return digest in self.blobs

    def load_image(self, archive):
        self.imported.append(archive)
        if archive.name.startswith("packages"):
            self.blobs |= {each.digest for each in oci.read(archive).layers}
        else:
            self.blobs.add(oci.manifest_digest(archive))


@pytest.fixture
def image(tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGES_CACHE", str(tmp_path))
    packages = save(tmp_path / "packages-stage-1.tar", BASE, PACKAGES)
    contents = oci.read(save(tmp_path / "whole.tar", BASE, PACKAGES, CODE))
    without = frozenset(each.digest for each in oci.read(packages).layers)
    archive = oci.write(contents, NAME, tmp_path / "stage-1.tar", without=without)
    return Image(NAME, archive, packages)


def renamed(image, tag):
    return rename(image, f"docker.io/diffusionstage/stage:{tag}")


def test_packages_are_imported_before_the_code(image):
    cluster = FakeCluster()
    images.load(cluster, image)
    assert cluster.imported == [image.packages, image.archive]


def test_where_the_packages_are_only_the_code_is_imported(image):
    cluster = FakeCluster()
    images.load(cluster, image)
    cluster.imported.clear()
    second = renamed(image, "2")
    images.load(cluster, second)
    assert cluster.imported == [second.archive]


def test_an_image_that_is_there_is_not_imported(image):
    cluster = FakeCluster()
    images.load(cluster, image)
    cluster.imported.clear()
    images.load(cluster, image)
    assert cluster.imported == []


def test_an_image_without_packages_of_its_own_is_one_archive(image, tmp_path):
    alone = Image("a:1", oci.write(image.contents(), "a:1", tmp_path / "alone.tar"))
    cluster = FakeCluster()
    images.load(cluster, alone)
    assert cluster.imported == [alone.archive]


def test_a_complete_archive_has_every_layer(image, tmp_path):
    archive = images.complete(image, tmp_path / "new" / "whole.tar")
    assert {each.source for each in oci.read(archive).layers} == {archive}


def test_an_image_is_pushed_under_its_own_tag(image, engine, monkeypatch):
    monkeypatch.setattr(deliver, "find", lambda: engine)
    name = images.bring(image, context="any", registry="ghcr.io/someone/")
    assert name == "ghcr.io/someone/stage:1"
    assert (engine.loaded, engine.pushed) == ([NAME], [name])


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("kind-dev", ["kind", "load", "image-archive", "--name", "dev"]),
        ("k3d-a-b", ["k3d", "image", "import", "--cluster", "a-b"]),
    ],
)
def test_local_clusters_take_an_archive(image, monkeypatch, tmp_path, context, words):
    ran = []
    monkeypatch.setattr(deliver, "_run", ran.append)
    assert images.bring(image, context=context, registry=None) == NAME
    archive = str(tmp_path / ".complete.tar")
    assert [word for word in ran[0] if word != archive] == words
    assert archive in ran[0]


def test_other_clusters_need_a_registry(image):
    with pytest.raises(
        TargetError, match=r"context prod is no test cluster .*: say which REGISTRY"
    ):
        images.bring(image, context="prod", registry=None)
