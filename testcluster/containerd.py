"""The container runtime of one node, on top of the node's image store."""

import subprocess
from pathlib import Path

from testcluster.errors import CommandError
from testcluster.layout import RUN

NAMESPACE = "k8s.io"
PAUSE = "docker.io/testcluster/pause:1"
UNUSED = [
    *(f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")),
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
]
# No CAP_SYS_RESOURCE and no AppArmor inside another container: do not ask for them.
CONFIG = """\
version = 2
root = "{store}"
state = "{state}"
oom_score = 0
disabled_plugins = {unused}
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{state}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
disable_tcp_service = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{networks}"
"""


def socket(number: int) -> Path:
    return RUN / f"containerd-{number}.sock"


def store_of(stores: Path, number: int) -> Path:
    """The folder of a node's images in a cluster's store."""
    return stores / f"node-{number}"


def config(number: int, *, store: Path, plugins: Path, networks: Path) -> str:
    return CONFIG.format(
        store=store,
        state=RUN / f"containerd-{number}",
        socket=socket(number),
        unused=UNUSED,
        pause=PAUSE,
        plugins=plugins,
        networks=networks,
    )


def blob(store: Path, digest: str) -> Path:
    """Where a node keeps the content with this digest, such as `sha256:0f3e…`."""
    algorithm, _, name = digest.partition(":")
    return store / "io.containerd.content.v1.content" / "blobs" / algorithm / name


def ctr(number: int, *arguments: str) -> list[str]:
    """A command line of containerd's own client, for one node."""
    return ["ctr", "--address", str(socket(number)), "--namespace", NAMESPACE, *arguments]


def is_up(number: int) -> bool:
    if not socket(number).exists():
        return False  # spares a process per look
    return subprocess.run(ctr(number, "version"), capture_output=True, check=False).returncode == 0


def list_images(number: int) -> str:
    """A table: first the name of each image, third the digest of its manifest."""
    return _output(ctr(number, "images", "list"))


def dangling(listing: str) -> list[str]:
    """The images, in what `list_images` returned, that only a former image's digest names.

    Kubernetes gives each image a second name, its digest, and keeps that when the first name
    moves on. Each would keep its layers for ever.
    """
    rows = [line.split() for line in listing.splitlines()[1:]]
    digests = {row[0]: row[2] for row in rows}
    named = {digest for name, digest in digests.items() if not name.startswith("sha256:")}
    return [name for name, digest in digests.items() if digest not in named]


def delete_images(number: int, names: list[str]) -> None:
    if names:
        _output(ctr(number, "images", "delete", *names))


def purge(number: int) -> bool:
    """Delete the containers that the last start left in the store; True where there were any.

    The runtime remembers what it read at its start: restart it then.
    """
    containers = _output(ctr(number, "containers", "list", "--quiet")).split()
    if containers:
        _output(ctr(number, "containers", "delete", *containers))
    return bool(containers)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
