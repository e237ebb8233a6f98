"""The image of the process that holds a pod's namespaces, as an OCI archive.

https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

MEDIA = "application/vnd.oci.image."
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(program: bytes, name: str) -> bytes:
    """An image whose only file is `program`, a static binary."""
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}

    layer = add(tar({"pause": program}, mode=0o755), "layer.v1.tar")
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": add(_json(config), "config.v1+json"),
        "layers": [layer],
    }
    entry = add(_json(manifest), "manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": name}
    index = {"schemaVersion": 2, "manifests": [entry]}
    layout = {"imageLayoutVersion": "1.0.0"}
    return tar({"oci-layout": _json(layout), "index.json": _json(index), **blobs}, mode=0o644)


def tar(files: dict[str, bytes], *, mode: int) -> bytes:
    """A tar archive; the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            out.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def write(program: Path, name: str, target: Path) -> None:
    target.write_bytes(archive(program.read_bytes(), name))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
