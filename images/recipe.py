"""What each image is made of, and keys that change only when the image would."""

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DISTRIBUTION = "diffusion-stage"
KEY_LENGTH = 12
CRDS = "charts/diffusion-operator/crds"  # a file of the operator is a link into it
CODE = ("pyproject.toml", "README.md", "LICENSE", "stage", "operator", CRDS)
PACKAGE_STAGES = ("tools", "lock", "deps")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A target of a Dockerfile. `extra` names the packages, `sources` what COPY takes."""

    target: str
    dockerfile: Path
    extra: str
    sources: tuple[str, ...] = CODE
    root: Path = ROOT

    def packages_key(self, base: str) -> str:
        """Of the layers below our code."""
        stages = stages_of(self.dockerfile.read_text())
        return _key(
            base.encode(),
            *(stages[name].encode() for name in PACKAGE_STAGES),
            _locked((self.root / "uv.lock").read_text(), self.extra),
        )

    def key(self, base: str) -> str:
        """Of the whole image."""
        stages = json.dumps(stages_of(self.dockerfile.read_text()))
        return _key(
            self.packages_key(base).encode(), stages.encode(), *self._files(), self.target.encode()
        )

    def _files(self) -> Iterator[bytes]:
        for source in self.sources:
            top = self.root / source
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.is_file() and "__pycache__" not in path.parts:
                    yield str(path.relative_to(self.root)).encode()
                    yield path.read_bytes()


STAGE = Recipe("stage", HERE / "stage.Dockerfile", "stage")
DEMO = Recipe("demo", STAGE.dockerfile, "stage", (*CODE, "models/icons-zimage-tiny"))
OPERATOR = Recipe("operator", HERE / "operator.Dockerfile", "operator")
RECIPES = {recipe.target: recipe for recipe in (STAGE, DEMO, OPERATOR)}


def stages_of(dockerfile: str) -> dict[str, str]:
    """The named build stages, without comments."""
    stages: dict[str, str] = {}
    name = ""
    for line in dockerfile.splitlines(keepends=True):
        if line.startswith("FROM "):
            _, _, name = line.strip().partition(" AS ")
        if not line.startswith("#"):
            stages[name] = stages.get(name, "") + line
    return stages


@functools.lru_cache
def _locked(text: str, extra: str) -> bytes:
    """Remembered, for reading the file takes half a second."""
    return json.dumps(packages(tomllib.loads(text), DISTRIBUTION, extra)).encode()


def packages(lock: dict[str, Any], name: str, extra: str) -> list[Any]:
    """What `uv.lock` says of the packages that `name[extra]` needs, on whatever platform."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for entry in lock["package"]:
        entries.setdefault(entry["name"], []).append(entry)
    needed: set[tuple[str, str]] = set()
    waiting = [(name, ""), (name, extra)]
    while waiting:
        wanted = waiting.pop()
        if wanted in needed:
            continue
        needed.add(wanted)
        for entry in entries[wanted[0]]:
            waiting += _needs(entry, wanted[1])
    names = sorted({each for each, _ in needed} - {name})
    return [entry for each in names for entry in entries[each]]


def _needs(entry: dict[str, Any], extra: str) -> Iterator[tuple[str, str]]:
    found = entry.get("optional-dependencies", {}).get(extra, [])
    for need in found if extra else entry.get("dependencies", []):
        for part in ("", *need.get("extra", [])):
            yield need["name"], part


def _key(*parts: bytes) -> str:
    return _hash(parts).hexdigest()[:KEY_LENGTH]


def _hash(parts: Iterable[bytes]) -> "hashlib._Hash":
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total
