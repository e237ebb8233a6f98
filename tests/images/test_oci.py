import gzip
import io
import json
import tarfile

import pytest

from images import oci
from images.errors import ArchiveError
from tests.images.conftest import BASE, CODE, PACKAGES, add, config_of, save, sha256

NAME = "docker.io/diffusionstage/stage:1"


@pytest.fixture
def saved(tmp_path):
    return save(tmp_path / "saved.tar", BASE, PACKAGES, CODE, User="10001")


def names(archive):
    with tarfile.open(archive) as tar:
        return tar.getnames()


def data_of(layer):
    return layer.source.read_bytes()[layer.offset :][: layer.size]


def test_an_archive_that_an_engine_saved_is_read_without_its_bytes_being_copied(saved):
    contents = oci.read(saved)
    assert contents.config["config"] == {"User": "10001"}
    assert [data_of(each) for each in contents.layers] == [BASE, PACKAGES, CODE]
    assert [each.digest for each in contents.layers] == [sha256(d) for d in (BASE, PACKAGES, CODE)]
    assert {each.media_type for each in contents.layers} == {oci.LAYER}


def test_a_layer_that_docker_saved_as_a_link_is_the_layer_it_links_to(tmp_path):
    archive = tmp_path / "old.tar"
    layers = ["one/layer.tar", "two/layer.tar"]
    manifest = [{"Config": "c.json", "Layers": layers}]
    with tarfile.open(archive, "w") as tar:
        add(tar, "one/layer.tar", BASE)
        link = tarfile.TarInfo("two/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        tar.addfile(link)
        add(tar, "c.json", json.dumps(config_of(BASE, BASE)).encode())
        add(tar, "manifest.json", json.dumps(manifest).encode())
    assert [data_of(each) for each in oci.read(archive).layers] == [BASE, BASE]


def test_a_compressed_layer_is_named_by_the_digest_of_its_bytes(tmp_path):
    packed = gzip.compress(BASE)
    archive, name = tmp_path / "packed.tar", "blobs/sha256/" + sha256(packed)[7:]
    manifest = [{"Config": "c.json", "Layers": [name]}]
    with tarfile.open(archive, "w") as tar:
        add(tar, name, packed)
        add(tar, "c.json", json.dumps(config_of(BASE)).encode())
        add(tar, "manifest.json", json.dumps(manifest).encode())
    (layer,) = oci.read(archive).layers
    assert layer.digest == sha256(packed)
    assert layer.media_type == oci.LAYER + "+gzip"


def test_what_was_written_reads_the_same(saved, tmp_path):
    contents = oci.read(saved)
    again = oci.read(oci.write(contents, NAME, tmp_path / "ours.tar"))
    assert again.config == contents.config
    assert [data_of(each) for each in again.layers] == [BASE, PACKAGES, CODE]


def test_every_blob_is_named_by_its_digest(saved, tmp_path):
    archive = oci.write(oci.read(saved), NAME, tmp_path / "ours.tar")
    with tarfile.open(archive) as tar:
        blobs = {n: tar.extractfile(n).read() for n in tar.getnames() if n.startswith("blobs/")}
    assert len(blobs) == 5
    assert all(name.endswith(sha256(data)[7:]) for name, data in blobs.items())


def test_a_thin_archive_names_all_layers_and_has_those_that_are_lacking(saved, tmp_path):
    known = frozenset({sha256(BASE), sha256(PACKAGES)})
    thin = oci.write(oci.read(saved), NAME, tmp_path / "thin.tar", without=known)
    layers = oci.read_thin(thin, oci.read(saved).layers).layers
    assert [each.digest for each in layers] == [sha256(d) for d in (BASE, PACKAGES, CODE)]
    assert [each.source for each in layers] == [saved, saved, thin]
    assert "manifest.json" not in names(thin), "no engine loads it in vain"


def test_a_thin_archive_becomes_complete_again(saved, tmp_path):
    known = oci.read(saved).layers[:2]
    without = frozenset(each.digest for each in known)
    thin = oci.write(oci.read(saved), NAME, tmp_path / "thin.tar", without=without)
    whole = oci.write(oci.read_thin(thin, known), NAME, tmp_path / "whole.tar")
    assert [data_of(each) for each in oci.read(whole).layers] == [BASE, PACKAGES, CODE]


def test_the_digest_of_the_manifest_tells_the_name(saved, tmp_path):
    contents = oci.read(saved)
    one = oci.write(contents, NAME, tmp_path / "one.tar")
    same = oci.write(contents, NAME, tmp_path / "same.tar")
    other = oci.write(contents, NAME + "0", tmp_path / "other.tar")
    assert oci.manifest_digest(one) == oci.manifest_digest(same) != oci.manifest_digest(other)
    assert one.read_bytes() == same.read_bytes()


def test_a_layer_that_occurs_twice_is_written_once(tmp_path):
    contents = oci.read(save(tmp_path / "saved.tar", BASE, CODE, BASE))
    archive = oci.write(contents, NAME, tmp_path / "ours.tar")
    assert len(names(archive)) == len(set(names(archive)))
    assert [data_of(each) for each in oci.read(archive).layers] == [BASE, CODE, BASE]


def test_an_archive_that_is_none_is_refused_by_name(tmp_path):
    broken = tmp_path / "broken.tar"
    broken.write_text("not an archive")
    with pytest.raises(ArchiveError, match=r"broken\.tar is not a complete image archive"):
        oci.read(broken)


def test_an_archive_without_a_manifest_is_refused_by_name(tmp_path):
    with tarfile.open(tmp_path / "empty.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    with pytest.raises(ArchiveError, match=r"empty\.tar is not a complete image archive"):
        oci.read(tmp_path / "empty.tar")


def test_nothing_half_written_stays_under_the_final_name(saved, tmp_path):
    contents = oci.read(saved)
    saved.unlink()
    with pytest.raises(FileNotFoundError):
        oci.write(contents, NAME, tmp_path / "ours.tar")
    assert not (tmp_path / "ours.tar").exists()
