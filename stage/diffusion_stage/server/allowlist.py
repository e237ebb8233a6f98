"""The clients that may connect: a file with a line `NAME PUBLICKEY` for each, as it stands now."""

import logging
from pathlib import Path

from diffusion_stage.wire.keys import EXPECTED, is_key

logger = logging.getLogger(__name__)


class AllowList:
    """Reads its file at each question: a mounted ConfigMap changes while the stage runs.

    What is wrong with the file is logged once for each content; whoever stands in the other lines
    is admitted, and nobody while it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content: bytes | str | None = None
        self._names: dict[str, str] = {}

    def name_of(self, key: str) -> str | None:
        """The client whose public key it is; None: it is not admitted."""
        self._read()
        return self._names.get(key)

    def _read(self) -> None:
        content: bytes | str
        try:
            content = self.path.read_bytes()
        except OSError as error:
            content = str(error)
        if content == self._content:
            return
        self._content = content
        if isinstance(content, str):
            self._names = {}
            logger.error("nobody is admitted: %s", content)
            return
        self._names, faults = parse(content)
        for fault in faults:
            logger.error("%s, %s", self.path, fault)
        logger.info("%d client(s) may connect: %s", len(self._names), self.path)


def parse(content: bytes) -> tuple[dict[str, str], list[str]]:
    """Names by key, and what is wrong with the lines that are left out."""
    names: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 2 and is_key(words[1]):
            names[words[1]] = words[0]
        else:
            faults.append(f"line {number}: {line!r:.100}; allowed: NAME and {EXPECTED}")
    return names, faults
