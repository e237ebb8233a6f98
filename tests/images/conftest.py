"""Images for tests: as engines save them, without an engine."""

import hashlib
import io
import json
import tarfile

import pytest

from images.engine import Engine


def layer(**files):
    """The bytes of a layer with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            add(tar, name, text.encode())
    return buffer.getvalue()


def add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def config_of(*layers, **settings):
    history = [{"created_by": sha256(data)[:20]} for data in layers]
    rootfs = {"type": "layers", "diff_ids": [sha256(data) for data in layers]}
    return {"os": "linux", "config": settings, "rootfs": rootfs, "history": history}


def save(path, *layers, **settings):
    """Write an archive as docker-archive has it."""
    names = [f"{sha256(data)[7:]}.tar" for data in layers]
    manifest = [{"Config": "config.json", "RepoTags": ["a:1"], "Layers": names}]
    with tarfile.open(path, "w") as tar:
        for name, data in dict(zip(names, layers, strict=True)).items():
            add(tar, name, data)
        add(tar, "config.json", json.dumps(config_of(*layers, **settings)).encode())
        add(tar, "manifest.json", json.dumps(manifest).encode())
    return path


BASE, PACKAGES, CODE = layer(base="base"), layer(torch="torch"), layer(code="code")


class FakeEngine(Engine):
    """Builds nothing, but saves what a build of our Dockerfiles would give."""

    program = "fake"

    def __init__(self):
        self.built = []
        self.code = CODE
        self.has_registry = True
        self.loaded = []
        self.pushed = []

    def is_working(self):
        return True

    def build(self, build, name, archive):
        self.built.append(build.target)
        if build.target == "deps":
            save(archive, BASE, PACKAGES)
        else:
            assert build.arguments["DEPS"] == build.arguments["BASE"]
            save(archive, BASE, self.code, Entrypoint=["diffusion-stage"])

    def pull(self, reference):
        return self.has_registry

    def load(self, archive, name):
        self.loaded.append(name)

    def push(self, name, reference):
        self.pushed.append(reference)


@pytest.fixture
def engine():
    return FakeEngine()
