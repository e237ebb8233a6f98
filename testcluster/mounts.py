"""File systems of the cluster's own over the places that would be shared with the host."""

import subprocess
from pathlib import Path

from testcluster.errors import RequirementError

# What containerd, runc, the CNI plugins and the kubelet write outside the folders they are given.
PRIVATE = ("/run", "/dev/shm", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")

# Settings of the whole machine that a kubelet writes unless they have these values already.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def isolate(resolv_conf: Path) -> None:
    """Cover the shared places, in this mount namespace only, and use the cluster's own DNS.

    `/` becomes shared within the namespace: volumes must reach containers.
    """
    mount("--make-rshared", "/")
    resolver = Path("/etc/resolv.conf").resolve()
    for place in PRIVATE:
        Path(place).mkdir(parents=True, exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    Path("/dev/shm").chmod(0o1777)
    if resolver.is_relative_to("/run"):
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.touch()
    if resolver.exists():
        mount("--bind", str(resolv_conf), str(resolver))


def shorten(folder: Path, alias: Path) -> None:
    """`folder` under a short name too: a socket's path has 107 characters at most.

    What is mounted below one of the two is not below the other.
    """
    for place in (folder, alias):
        place.mkdir(parents=True, exist_ok=True)
    mount("--bind", str(folder), str(alias))
    mount("--make-private", str(alias))
    mount("--make-rshared", str(alias))


def shield_kernel_settings(folder: Path) -> None:
    """Let the kubelet read the settings that it wants, from files in `folder`: it writes none."""
    for name, value in KERNEL_SETTINGS.items():
        shield = folder / name
        shield.parent.mkdir(parents=True, exist_ok=True)
        shield.write_text(f"{value}\n")
        mount("--bind", str(shield), f"/proc/sys/{name}")


def require_overlay(folder: Path) -> None:
    """Raise RequirementError where containers cannot have layered file systems in `folder`."""
    layers = [folder / "probe" / name for name in ("lower", "upper", "work", "merged")]
    for layer in layers:
        layer.mkdir(parents=True, exist_ok=True)
    lower, upper, work, merged = layers
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    try:
        mount("-t", "overlay", "-o", options, "overlay", str(merged))
    except RequirementError as error:
        raise RequirementError(
            f"overlayfs does not work in {folder} ({error}). "
            "Set TESTCLUSTER_CACHE to a folder on ext4, xfs or tmpfs"
        ) from error
    subprocess.run(["umount", str(merged)], check=True)


def mount(*arguments: str) -> None:
    """mount(8)."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RequirementError(f"mount {' '.join(arguments)}: {done.stderr.strip()}")
