import pytest

from images import oci
from images.errors import ArchiveError
from images.rebase import rebase
from tests.images.conftest import BASE, CODE, PACKAGES, layer, save, sha256

SETTINGS = {"User": "10001:10001", "Entrypoint": ["diffusion-stage"]}


@pytest.fixture
def packages(tmp_path):
    return oci.read(save(tmp_path / "packages.tar", BASE, PACKAGES))


@pytest.fixture
def code(tmp_path):
    return oci.read(save(tmp_path / "code.tar", BASE, CODE, **SETTINGS))


def test_our_layers_lie_on_those_of_the_packages(packages, code):
    both = rebase(code, packages)
    digests = [sha256(data) for data in (BASE, PACKAGES, CODE)]
    assert [each.digest for each in both.layers] == digests
    assert both.config["rootfs"]["diff_ids"] == digests


def test_the_settings_are_those_of_our_image(packages, code):
    assert rebase(code, packages).config["config"] == SETTINGS


def test_the_history_has_one_entry_for_each_layer(packages, code):
    assert len(rebase(code, packages).config["history"]) == 3


def test_images_without_history_are_joined_all_the_same(packages, code):
    del packages.config["history"], code.config["history"]
    assert rebase(code, packages).config["history"] == []


def test_images_on_different_bases_are_refused(packages, tmp_path):
    other = oci.read(save(tmp_path / "other.tar", layer(other="base"), CODE))
    with pytest.raises(ArchiveError, match="no base in common"):
        rebase(other, packages)
