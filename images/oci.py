"""Images in tar archives: those that engines save, and our own.

Engines save with a `manifest.json`: docker-archive, the same since Docker 1.10. We write the OCI
layout, https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md, and may leave out
layers that the reader has: containerd takes such a thin archive. A complete one also has the
`manifest.json`, so every engine loads it.
"""

import hashlib
import io
import json
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from images.errors import ArchiveError

MEDIA = "application/vnd.oci.image."
LAYER = MEDIA + "layer.v1.tar"
COMPRESSIONS = {b"\x1f\x8b": "+gzip", b"\x28\xb5\x2f\xfd": "+zstd"}
BLOBS = "blobs/sha256/"
ALGORITHM = "sha256:"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, and where its bytes lie: `size` bytes of the file `source`, from `offset` on."""

    digest: str
    size: int
    media_type: str
    source: Path
    offset: int

    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Contents:
    """What an image is: its configuration, and its layers from the lowest up."""

    config: dict[str, Any]
    layers: tuple[Layer, ...]


def digest(data: bytes) -> str:
    return ALGORITHM + hashlib.sha256(data).hexdigest()


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return ALGORITHM + hashlib.file_digest(file, "sha256").hexdigest()


# --- reading ---


def read(archive: Path) -> Contents:
    """The only image of an archive that an engine saved, or of a complete one of ours."""
    with _open(archive) as tar:
        (image,) = json.loads(_bytes(tar, "manifest.json"))
        config = json.loads(_bytes(tar, image["Config"]))
        names, diff_ids = image["Layers"], config["rootfs"]["diff_ids"]
        if len(names) != len(diff_ids):
            raise ArchiveError(f"{archive} has {len(names)} layers for {len(diff_ids)} diff ids")
        layers = [
            _layer(archive, tar, name, diff_id)
            for name, diff_id in zip(names, diff_ids, strict=True)
        ]
    return Contents(config, tuple(layers))


def read_thin(archive: Path, known: Iterable[Layer]) -> Contents:
    """The image of one of our own archives; the layers it leaves out are among `known`."""
    elsewhere = {layer.digest: layer for layer in known}
    with _open(archive) as tar:
        manifest = json.loads(_blob(tar, manifest_digest(archive)))
        config = json.loads(_blob(tar, manifest["config"]["digest"]))
        names = set(tar.getnames())
        layers = [
            _layer(archive, tar, name, found)
            if (name := _name(found := entry["digest"])) in names
            else elsewhere[found]
            for entry in manifest["layers"]
        ]
    return Contents(config, tuple(layers))


def manifest_digest(archive: Path) -> str:
    """What a content store that has imported one of our archives keeps its manifest under."""
    with _open(archive) as tar:
        (entry,) = json.loads(_bytes(tar, "index.json"))["manifests"]
    return str(entry["digest"])


@contextmanager
def _open(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:") as tar:
            yield tar
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise ArchiveError(f"{archive} is not a complete image archive: {error}") from error


def _bytes(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ArchiveError(f"{name} is not a file")
    return file.read()


def _blob(tar: tarfile.TarFile, found: str) -> bytes:
    return _bytes(tar, _name(found))


def _layer(archive: Path, tar: tarfile.TarFile, name: str, diff_id: str) -> Layer:
    """Docker names layers by the digest of their bytes, or by nothing that has a meaning.

    They are not compressed in the latter case, so the diff id is their digest.
    """
    member = tar.getmember(name)
    if member.issym():  # the same bytes as another layer
        member = tar.getmember(
            posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        )
    with archive.open("rb") as file:
        file.seek(member.offset_data)
        head = file.read(4)
    compression = next((word for magic, word in COMPRESSIONS.items() if head.startswith(magic)), "")
    found = ALGORITHM + name.removeprefix(BLOBS) if name.startswith(BLOBS) else diff_id
    return Layer(found, member.size, LAYER + compression, archive, member.offset_data)


# --- writing ---


def write(
    contents: Contents, name: str, target: Path, *, without: frozenset[str] = frozenset()
) -> Path:
    """Write an archive of the image under `name`, less the layers whose digests are `without`.

    The manifest names the image, so its digest tells that this name was imported.
    """
    config = _json(contents.config)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MEDIA + "manifest.v1+json",
            "config": _descriptor(config, "config.v1+json"),
            "layers": [layer.descriptor() for layer in contents.layers],
            "annotations": {"org.opencontainers.image.ref.name": name},
        }
    )
    entry = _descriptor(manifest, "manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": name}
    half = target.with_name(f".{target.name}.half")
    with tarfile.open(half, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        if not without:
            _add(tar, "manifest.json", _json([_docker_manifest(contents, config, name)]))
        for blob in (manifest, config):
            _add(tar, _name(digest(blob)), blob)
        for layer in {layer.digest: layer for layer in contents.layers}.values():
            if layer.digest not in without:
                _copy(tar, layer)
    return half.replace(target)


def _docker_manifest(contents: Contents, config: bytes, name: str) -> dict[str, Any]:
    layers = [_name(layer.digest) for layer in contents.layers]
    return {"Config": _name(digest(config)), "RepoTags": [name], "Layers": layers}


def _copy(tar: tarfile.TarFile, layer: Layer) -> None:
    with layer.source.open("rb") as file:
        file.seek(layer.offset)
        _add_file(tar, _name(layer.digest), file, layer.size)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    _add_file(tar, name, io.BytesIO(data), len(data))


def _add_file(tar: tarfile.TarFile, name: str, file: BinaryIO, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    tar.addfile(entry, file)


def _name(found: str) -> str:
    return BLOBS + found.removeprefix(ALGORITHM)


def _descriptor(data: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": MEDIA + kind, "digest": digest(data), "size": len(data)}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
