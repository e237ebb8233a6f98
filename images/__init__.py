"""The container images: Dockerfiles, and what builds and ships them. `python -m images`."""

from images.builder import build, demo_stage, pybase, rename
from images.deliver import bring, complete, load, push
from images.errors import ArchiveError, BaseError, EngineError, ImageError, TargetError
from images.image import Image

__all__ = [
    "ArchiveError",
    "BaseError",
    "EngineError",
    "Image",
    "ImageError",
    "TargetError",
    "bring",
    "build",
    "complete",
    "demo_stage",
    "load",
    "push",
    "pybase",
    "rename",
]
