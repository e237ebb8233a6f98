"""Builds the cluster's binaries from the Go modules in `build/`, where their source changed."""

import fcntl
import hashlib
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testcluster import toolchain
from testcluster.errors import BuildError

MODULES = Path(__file__).with_name("build")
STILL_BUILDING_S = 60.0  # a silent minute worries people
ERROR_TAIL_LINES = 20
KUBERNETES = "1.34.4"

logger = logging.getLogger("testcluster")


@dataclass(frozen=True, slots=True)
class Binary:
    """One binary: the module of the same name, the package in it, what it is and takes to build."""

    name: str
    package: str
    what: str
    linker: str = ""

    @property
    def module(self) -> Path:
        return MODULES / self.name

    @property
    def digest(self) -> str:
        """Changes with the sources and with how they are built."""
        parts = [self.package.encode(), self.linker.encode()]
        for path in sorted(self.module.iterdir()):
            parts += [path.name.encode(), path.read_bytes()]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _version_flags(version: str) -> str:
    variable = "k8s.io/component-base/version."
    major, minor, _ = version.split(".")
    return (
        f" -X {variable}gitVersion=v{version} -X {variable}gitMajor={major}"
        f" -X {variable}gitMinor={minor}"
    )


BINARIES = (
    Binary("pause", ".", "holds the namespaces of pods"),
    Binary("coredns", ".", "the cluster's DNS, a minute"),
    Binary("helm", "helm.sh/helm/v3/cmd/helm", "installs charts, a minute"),
    Binary(
        "kubebox",
        ".",
        f"etcd, kubectl and Kubernetes {KUBERNETES} in one binary, 6 minutes on 2 cores",
        _version_flags(KUBERNETES),
    ),
)


def build(folder: Path) -> None:
    """Build into `folder` what is missing or out of date there."""
    with _lock(folder):
        stale = [binary for binary in BINARIES if not is_current(binary, folder)]
        if not stale:
            return
        logger.info("no prebuilt binaries are named, so they are built, once, into %s", folder)
        go = toolchain.go_command(toolchain.required([binary.module for binary in stale]))
        for binary in stale:
            _build_one(binary, folder, go)


def is_current(binary: Binary, folder: Path) -> bool:
    stamp = _stamp(binary, folder)
    built = (folder / binary.name).exists() and stamp.exists()
    return built and stamp.read_text() == binary.digest


def _stamp(binary: Binary, folder: Path) -> Path:
    return folder / f".{binary.name}.digest"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One build at a time; the second one finds its work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another build into %s", folder)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_one(binary: Binary, folder: Path, go: list[str]) -> None:
    """The finished file appears under its name at once, so an ended build leaves no half of one."""
    logger.info("building %-8s %s", binary.name, binary.what)
    start_s = time.monotonic()
    half = folder / f".{binary.name}.half"
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w{binary.linker}", "-o", str(half)]
    _run([*go, "build", *flags, binary.package], binary, folder / f"{binary.name}.log")
    half.replace(folder / binary.name)
    _stamp(binary, folder).write_text(binary.digest)
    logger.info("%5.0f s  built %s", time.monotonic() - start_s, binary.name)


def _run(command: list[str], binary: Binary, log: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    start_s = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=binary.module, env=environment, stdout=output, stderr=output
        )
    try:
        while process.poll() is None:
            try:
                process.wait(STILL_BUILDING_S)
            except subprocess.TimeoutExpired:
                logger.info("%5.0f s  still building %s", time.monotonic() - start_s, binary.name)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-ERROR_TAIL_LINES:])
        raise BuildError(f"building {binary.name} failed, see {log}; it ends with:\n{tail}")
