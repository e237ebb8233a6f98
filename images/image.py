"""What a build gives."""

from dataclasses import dataclass
from pathlib import Path

from images import oci


@dataclass(frozen=True, slots=True)
class Image:
    """An image, ready to load. `archive` leaves out the layers of `packages`, where that is given.

    Both files belong to the cache.
    """

    name: str
    archive: Path
    packages: Path | None = None

    def contents(self) -> oci.Contents:
        if self.packages is None:
            return oci.read(self.archive)
        return oci.read_thin(self.archive, oci.read(self.packages).layers)
