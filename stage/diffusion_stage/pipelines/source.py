"""Where a model comes from: a folder, or a repository of the Hugging Face hub. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path

from diffusion_stage.errors import ModelError

INDEX = "model_index.json"
HUB = "hf://"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """What `from_pretrained` is called with; `is_local` forbids it to ask the hub."""

    name: str
    revision: str | None
    is_local: bool

    def __str__(self) -> str:
        if self.is_local:
            return self.name
        return f"{HUB}{self.name}" + (f" at {self.revision}" if self.revision else "")


def find(uri: str, revision: str | None) -> ModelSource:
    """The source that a URI names.

    Raises `ModelError` for a folder that holds no pipeline, or a scheme that is not supported.
    """
    if uri.startswith(HUB):
        return ModelSource(uri.removeprefix(HUB), revision, is_local=False)
    if not uri.startswith("/"):
        raise ModelError(f"model {uri!r}: allowed: an absolute path, or {HUB}organisation/name")
    try:
        _check_folder(Path(uri))
    except OSError as error:  # not ours to read, or no possible path
        raise ModelError(f"model {uri}: {error}") from error
    return ModelSource(uri, None, is_local=True)


def _check_folder(folder: Path) -> None:
    index = folder / INDEX
    if not folder.is_dir():
        raise ModelError(f"model {folder}: no such folder; looked for {index}. {_nearby(folder)}")
    if not index.is_file():
        found = ", ".join(sorted(p.name for p in folder.iterdir())[:10]) or "nothing"
        raise ModelError(f"model {folder}: not a pipeline; looked for {index}, found {found}")


def _nearby(folder: Path) -> str:
    """What there is instead, for a typo or a volume that is not mounted."""
    parent = next(p for p in folder.parents if p.is_dir())
    names = ", ".join(sorted(p.name for p in parent.iterdir() if p.is_dir())[:10])
    return f"{parent} has {names or 'no folders'}"
