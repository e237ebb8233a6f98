"""A base image made of Debian packages, for where no image registry can be reached."""

import platform
import shutil
import subprocess
from pathlib import Path

from images import oci
from images.errors import BaseError

SUITE = "bookworm"  # its Python is 3.11
PACKAGES = (
    "ca-certificates",  # TLS to model hubs
    "libstdc++6",  # torch
    "python3",
    "python3-venv",  # the Dockerfiles make virtual environments
    "usr-is-merged",  # else usrmerge comes, and Perl with it
)
MERGED = Path("/usr/share/mmdebstrap/hooks/merged-usr")
UNNEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/log", "var/cache")
EPOCH_S = 1700000000  # of every file, so the same packages give the same bytes
CREATED = "2023-11-14T22:13:20Z"  # the same moment
TIMEOUT_S = 900.0
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REPOSITORY = "docker.io/diffusionstage/pybase"


def make(folder: Path) -> Path:
    """Write a complete archive of Debian's Python into `folder`, in half a minute."""
    files = folder / "debian.tar.half"
    try:
        _bootstrap(files)
        contents = _contents(files)
        (layer,) = contents.layers
        name = f"{REPOSITORY}:{layer.digest.removeprefix(oci.ALGORITHM)[:12]}"
        return oci.write(contents, name, folder / "debian.tar")
    finally:
        files.unlink(missing_ok=True)


def name_of(archive: Path) -> str:
    """The name of the image that `make` wrote; its tag is the digest of its files."""
    (layer,) = oci.read(archive).layers
    return f"{REPOSITORY}:{layer.digest.removeprefix(oci.ALGORITHM)[:12]}"


def _bootstrap(target: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise BaseError("no image registry answers, and there is no mmdebstrap to make a base with")
    rubbish = " ".join(f'"$1"/{folder}/*' for folder in UNNEEDED)
    command = [
        *("mmdebstrap", "--format=tar", "--variant=essential"),
        f"--include={','.join(PACKAGES)}",
        f"--hook-dir={MERGED}",
        "--dpkgopt=force-unsafe-io",
        f"--customize-hook=rm -rf {rubbish}",
        *(SUITE, str(target)),
    ]
    try:
        done = subprocess.run(
            ["env", f"SOURCE_DATE_EPOCH={EPOCH_S}", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BaseError(f"mmdebstrap did not end in {TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        raise BaseError(f"mmdebstrap ended with {done.returncode}:\n{done.stderr[-2000:]}")


def _contents(files: Path) -> oci.Contents:
    """The files as an image. Its history has one entry for its one layer: buildah counts them."""
    digest = oci.digest_of(files)
    config = {
        "created": CREATED,
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": [f"PATH={PATH}"], "Cmd": ["python3"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
        "history": [{"created": CREATED, "created_by": f"mmdebstrap {SUITE}"}],
    }
    layer = oci.Layer(digest, files.stat().st_size, oci.LAYER, files, 0)
    return oci.Contents(config, (layer,))
