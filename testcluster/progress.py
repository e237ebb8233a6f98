"""What the cluster's first process tells its launcher while it starts: one JSON line per event."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["mark", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened `seconds` after the start."""

    kind: Kind
    seconds: float
    text: str


class Progress:
    """The writing side. It owns the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start_s = time.monotonic()

    def mark(self, text: str) -> None:
        self._write("mark", text)

    def ready(self) -> None:
        self._write("ready", "cluster ready")

    def failed(self, text: str) -> None:
        self._write("failed", text)

    def _write(self, kind: Kind, text: str) -> None:
        seconds = round(time.monotonic() - self._start_s, 2)
        with self._path.open("a") as file:
            file.write(json.dumps({"kind": kind, "seconds": seconds, "text": text}) + "\n")


def events(path: Path, seen: int = 0) -> Iterator[Event]:
    """The events after the first `seen`. A line that is still being written is left for later."""
    if not path.exists():
        return
    for line in path.read_text().splitlines(keepends=True)[seen:]:
        if line.endswith("\n"):
            yield Event(**json.loads(line))
