import shutil

import pytest

from images import engine, oci
from images.engine import Build, Buildah, Docker, Podman
from images.errors import EngineError


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes programs, the only ones in the PATH, that end with a code."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(**codes):
        for name, code in codes.items():
            program = tmp_path / name
            program.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
            program.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ({"docker": 0, "buildah": 0, "podman": 0}, Docker),
        ({"docker": 1, "buildah": 0, "podman": 0}, Buildah),
        ({"docker": 1, "podman": 0}, Podman),
    ],
)
def test_the_first_engine_that_works_builds(programs, codes, kind):
    programs(**codes)
    assert isinstance(engine.find(), kind)


def test_without_an_engine_it_is_said_what_to_install(programs):
    programs(docker=1)
    with pytest.raises(EngineError, match="none of docker, buildah, podman works here: install"):
        engine.find()


def test_a_failed_build_tells_the_engines_last_words(programs, tmp_path):
    programs(docker=3)
    with pytest.raises(EngineError, match=r"ended with 3:\nbuild .*--target=deps"):
        Docker().build(Build(tmp_path / "D", tmp_path, "deps"), "a:1", tmp_path / "a.tar")


def test_options_name_the_target_and_its_arguments(tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    build = Build(tmp_path / "Dockerfile", tmp_path, "deps", {"BASE": "b:1"})
    options = [f"--file={tmp_path}/Dockerfile", "--target=deps", "--build-arg=BASE=b:1"]
    assert build.options() == options


def test_certificates_of_this_machine_are_lent_to_the_build(tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/own.pem")
    options = Build(tmp_path / "Dockerfile", tmp_path, "deps").options()
    assert options[-1] == "--secret=id=ca,src=/etc/own.pem"


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("buildah"), reason="no buildah: apt-get install buildah")
def test_buildah_saves_what_a_dockerfile_says(tmp_path):
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM scratch AS one\nCOPY hello /hello\nUSER 10001\nFROM one\n")
    (tmp_path / "hello").write_text("hello")
    archive = tmp_path / "image.tar"
    Buildah().build(Build(dockerfile, tmp_path, "one"), "docker.io/diffusionstage/t:1", archive)
    contents = oci.read(archive)
    assert contents.config["config"]["User"] == "10001"
    assert len(contents.layers) == 1
    assert not (tmp_path / ".buildah").exists()


def test_what_a_killed_engine_left_goes_at_the_next_build(tmp_path):
    (tmp_path / "scratch" / "left").mkdir(parents=True)
    with engine.scratch(tmp_path / "scratch") as folder:
        assert list(folder.iterdir()) == []
    assert not folder.exists()
