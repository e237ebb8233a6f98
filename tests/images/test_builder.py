import os

import pytest

import images
from images import builder, oci
from images.recipe import RECIPES, STAGE
from tests.images.conftest import BASE, CODE, PACKAGES, layer, sha256


@pytest.fixture
def cache(tmp_path, monkeypatch, engine):
    monkeypatch.setenv("IMAGES_CACHE", str(tmp_path))
    monkeypatch.setenv("IMAGES_BASE", "python:test")
    monkeypatch.setattr(builder, "find", lambda: engine)
    return tmp_path


@pytest.fixture
def change(monkeypatch):
    """Changes what goes into images: their code, or their packages too."""

    def to(key, packages_key="0"):
        monkeypatch.setattr(STAGE.__class__, "key", lambda _, base: packages_key + key)
        monkeypatch.setattr(STAGE.__class__, "packages_key", lambda _, base: packages_key)

    to("a")
    return to


def digests(image):
    return [each.digest for each in image.contents().layers]


def test_an_image_is_its_base_its_packages_and_its_code(cache, engine):
    image = images.build("stage")
    assert engine.built == ["deps", "stage"]
    assert digests(image) == [sha256(data) for data in (BASE, PACKAGES, CODE)]
    assert image.contents().config["config"] == {"Entrypoint": ["diffusion-stage"]}


def test_the_archive_of_an_image_has_our_layers_alone(cache, engine):
    engine.code = layer(code="x" * 50_000)
    image = images.build("stage")
    sources = {each.digest: each.source for each in image.contents().layers}
    assert sources[sha256(engine.code)] == image.archive
    assert sources[sha256(PACKAGES)] == sources[sha256(BASE)] == image.packages


def test_where_nothing_changed_nothing_is_built(cache, engine):
    first = images.build("stage")
    engine.built.clear()
    assert images.build("stage") == first
    assert engine.built == []


def test_a_change_of_code_builds_code_alone_under_another_tag(cache, engine, change):
    first = images.build("stage")
    engine.built.clear()
    change("b")
    second = images.build("stage")
    assert engine.built == ["stage"]
    assert second.name != first.name
    assert first.archive.exists(), "pods may still use it"


def test_files_that_change_during_a_build_are_built_again(cache, engine, change, monkeypatch):
    real = engine.build

    def edit_once(build, name, archive):
        real(build, name, archive)
        if engine.built == ["deps", "stage"]:
            engine.code = layer(code="edited")
            change("b")

    monkeypatch.setattr(engine, "build", edit_once)
    image = images.build("stage")
    assert image.name.endswith(":0b")
    assert digests(image)[-1] == sha256(engine.code)
    assert list(cache.glob("stage-*.tar")) == [image.archive]


def test_only_the_newest_archives_are_kept(cache, engine, change):
    made = []
    for number in range(builder.KEPT + 2):
        change(f"{number:02}")
        made.append(images.build("stage").archive)
        os.utime(made[-1], (number, number))
    images.build("operator")
    assert sorted(cache.glob("stage-*.tar")) == made[2:]
    assert len(list(cache.glob("packages-*.tar"))) == 2


def test_stage_and_demo_share_their_packages(cache, engine):
    assert images.build("stage").packages == images.demo_stage().packages
    assert engine.built == ["deps", "stage", "demo"]


def test_new_packages_drive_out_the_old_and_what_stood_on_them(cache, engine, change):
    old, other = images.demo_stage(), images.build("operator")
    change("b", "1")
    new = images.build("stage")
    assert new.packages != old.packages
    assert not old.packages.exists()
    assert not old.archive.exists()
    assert other.archive.exists()
    assert other.packages.exists()


def test_a_given_tag_names_the_image_as_it_is_now(cache, engine, change):
    images.build("stage", tag="dev")
    engine.code = layer(code="new")
    change("b")
    image = images.build("stage", tag="dev")
    assert image.name == "docker.io/diffusionstage/stage:dev"
    assert digests(image)[-1] == sha256(engine.code)


def test_a_build_that_failed_leaves_nothing_that_counts_as_built(cache, engine, monkeypatch):
    def fail(build, name, archive):
        archive.write_text("half")
        raise images.EngineError("no")

    monkeypatch.setattr(engine, "build", fail)
    with pytest.raises(images.EngineError):
        images.build("stage")
    assert not list(cache.glob("[!.]*.tar"))


def test_the_public_base_is_taken_where_it_can_be_pulled(cache, engine, monkeypatch):
    monkeypatch.delenv("IMAGES_BASE")
    images.build("stage")
    assert (cache / "base").read_text() == "docker.io/library/python:3.11-slim"
    assert engine.loaded == []


def test_debians_packages_are_the_base_where_no_registry_answers(cache, engine, monkeypatch):
    monkeypatch.delenv("IMAGES_BASE")
    monkeypatch.setattr(builder.bases.debian, "_bootstrap", lambda target: target.write_bytes(BASE))
    engine.has_registry = False
    images.build("stage")
    name = f"docker.io/diffusionstage/pybase:{sha256(BASE)[7:19]}"
    assert engine.loaded == [name, name]
    assert images.pybase().name == name
    assert oci.read(images.pybase().archive).layers[0].digest == sha256(BASE)


def test_every_target_has_a_recipe():
    assert set(RECIPES) == {"stage", "demo", "operator"}
