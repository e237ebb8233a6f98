"""The programs that build images: docker, buildah or podman, whichever works here."""

import abc
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from images.errors import EngineError

BUILD_TIMEOUT_S = 3600.0
PULL_TIMEOUT_S = 600.0
ANSWER_TIMEOUT_S = 20.0
LAST_LINES = 30

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Build:
    """One target of a Dockerfile, with `context` as the folder that COPY reads."""

    dockerfile: Path
    context: Path
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> list[str]:
        words = [f"--file={self.dockerfile}", f"--target={self.target}"]
        words += [f"--build-arg={name}={value}" for name, value in self.arguments.items()]
        certificates = os.environ.get("SSL_CERT_FILE")
        if certificates:  # this machine reaches package indexes through an authority of its own
            words.append(f"--secret=id=ca,src={certificates}")
        return words


class Engine(abc.ABC):
    """What is asked of a program that builds images."""

    program: str

    @abc.abstractmethod
    def is_working(self) -> bool: ...

    @abc.abstractmethod
    def build(self, build: Build, name: str, archive: Path) -> None:
        """Write the image, called `name`, to `archive`, in a form that `oci.read` reads."""

    @abc.abstractmethod
    def pull(self, reference: str) -> bool:
        """Whether the public image is here now."""

    @abc.abstractmethod
    def load(self, archive: Path, name: str) -> None:
        """Make the image of a complete archive known as `name`, for FROM and for `push`."""

    @abc.abstractmethod
    def push(self, name: str, reference: str) -> None:
        """Push a loaded image to a registry, where it is called `reference`."""

    def run(self, *arguments: str | Path, timeout_s: float, env: Mapping[str, str] = {}) -> str:
        """Run the engine; returns what it printed. Raises `EngineError` with its last lines."""
        line = [self.program, *map(str, arguments)]
        logger.debug("%s", " ".join(line))
        try:
            done = subprocess.run(
                line,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{' '.join(line)}: {error}") from error
        if done.returncode != 0:
            last = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
            raise EngineError(f"{' '.join(line)} ended with {done.returncode}:\n{last}")
        return done.stdout

    def succeeds(self, *arguments: str | Path, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        try:
            self.run(*arguments, timeout_s=timeout_s)
        except EngineError as error:
            logger.debug("%s", error)
            return False
        return True


class Docker(Engine):
    """Works where a daemon answers, also one on another machine (DOCKER_HOST)."""

    program = "docker"

    def is_working(self) -> bool:
        return self.succeeds("version", "--format={{.Server.Version}}")

    def build(self, build: Build, name: str, archive: Path) -> None:
        env = {"DOCKER_BUILDKIT": "1"}  # the default since 23.0
        command = [
            "build",
            *build.options(),
            f"--tag={name}",
            "--progress=plain",
            str(build.context),
        ]
        self.run(*command, timeout_s=BUILD_TIMEOUT_S, env=env)
        self.run("save", f"--output={archive}", name, timeout_s=BUILD_TIMEOUT_S)

    def pull(self, reference: str) -> bool:
        return self.succeeds("image", "inspect", reference) or self.succeeds(
            "pull", reference, timeout_s=PULL_TIMEOUT_S
        )

    def load(self, archive: Path, name: str) -> None:
        if not self.succeeds("image", "inspect", name):
            self.run("load", f"--input={archive}", timeout_s=BUILD_TIMEOUT_S)

    def push(self, name: str, reference: str) -> None:
        self.run("tag", name, reference, timeout_s=ANSWER_TIMEOUT_S)
        self.run("push", reference, timeout_s=BUILD_TIMEOUT_S)


class Buildah(Engine):
    """Needs no daemon, and with chroot isolation no right that a container lacks."""

    program = "buildah"

    def is_working(self) -> bool:
        return self.succeeds("info")

    def build(self, build: Build, name: str, archive: Path) -> None:
        """Straight to the archive: the last layer is never unpacked into buildah's own store."""
        output = f"--tag=docker-archive:{archive}:{name}"
        command = ["build", "--layers", "--force-rm", *build.options(), output, str(build.context)]
        archive.unlink(missing_ok=True)
        with scratch(archive.parent / ".buildah") as folder:
            isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
            env = {"BUILDAH_ISOLATION": isolation, "TMPDIR": str(folder)}
            self.run(*command, timeout_s=BUILD_TIMEOUT_S, env=env)

    def pull(self, reference: str) -> bool:
        return self.succeeds("pull", "--policy=missing", reference, timeout_s=PULL_TIMEOUT_S)

    def load(self, archive: Path, name: str) -> None:
        if not self.succeeds("inspect", "--type=image", name):
            self.run("pull", f"docker-archive:{archive}", timeout_s=BUILD_TIMEOUT_S)

    def push(self, name: str, reference: str) -> None:
        self.run("push", name, f"docker://{reference}", timeout_s=BUILD_TIMEOUT_S)


class Podman(Engine):
    """Like docker, without a daemon."""

    program = "podman"

    def is_working(self) -> bool:
        return self.succeeds("info")

    def build(self, build: Build, name: str, archive: Path) -> None:
        archive.unlink(missing_ok=True)
        command = ["build", "--layers", *build.options(), f"--tag={name}", str(build.context)]
        self.run(*command, timeout_s=BUILD_TIMEOUT_S)
        self.run("save", f"--output={archive}", name, timeout_s=BUILD_TIMEOUT_S)

    def pull(self, reference: str) -> bool:
        return self.succeeds("pull", "--policy=missing", reference, timeout_s=PULL_TIMEOUT_S)

    def load(self, archive: Path, name: str) -> None:
        if not self.succeeds("image", "exists", name):
            self.run("load", f"--input={archive}", timeout_s=BUILD_TIMEOUT_S)

    def push(self, name: str, reference: str) -> None:
        self.run("push", name, f"docker://{reference}", timeout_s=BUILD_TIMEOUT_S)


ENGINES: tuple[type[Engine], ...] = (Docker, Buildah, Podman)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """An empty folder for a while. What a killed program left in it goes at the next use."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def find() -> Engine:
    """The first engine that works. Raises `EngineError` where none does."""
    for kind in ENGINES:
        engine = kind()
        if engine.is_working():
            logger.debug("building with %s", engine.program)
            return engine
    names = ", ".join(kind.program for kind in ENGINES)
    raise EngineError(f"none of {names} works here: install one, for instance Debian's buildah")
