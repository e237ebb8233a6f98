"""Colours on a terminal, and none elsewhere."""

import os
from dataclasses import dataclass
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@dataclass(frozen=True, slots=True)
class Colours:
    """Paints, or leaves as it is (https://no-color.org)."""

    are_on: bool

    @classmethod
    def of(cls, stream: TextIO) -> "Colours":
        return cls(stream.isatty() and not os.environ.get("NO_COLOR"))

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self.are_on and text else text
