"""What a person reads while the demo runs: each step with its seconds."""

import logging
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Narrator:
    """Prints, and remembers how long each step took. `started_at` is monotonic."""

    started_at: float = field(default_factory=time.monotonic)
    steps: list[dict[str, str | float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step that ends well, or with the exception that it ends with."""
        begun = time.monotonic()
        self._write(f"{begun - self.started_at:6.1f} s  {name} …", end="\r" if _is_tty() else "\n")
        yield
        now = time.monotonic()
        seconds = now - begun
        self.steps.append({"name": name, "seconds": round(seconds, 2)})
        self._write(f"{now - self.started_at:6.1f} s  {name}: {seconds:.1f} s")

    def say(self, text: str) -> None:
        """Indented, under the step that it belongs to."""
        self._write(textwrap.indent(text.rstrip(), " " * 10))

    def advance(self, text: str) -> None:
        """A line that the next one overwrites; nothing where no person looks on."""
        if _is_tty():
            self._write(f"{'':10}{text}", end="\r")

    def _write(self, text: str, end: str = "\n") -> None:
        clear = "\x1b[K" if _is_tty() else ""
        print(f"{clear}{text}", end=end, flush=True)


class Details(logging.Handler):
    """Tells what a long step is at, as the modules that do it log it."""

    def __init__(self, narrator: Narrator) -> None:
        super().__init__(logging.INFO)
        self._narrator = narrator

    def emit(self, record: logging.LogRecord) -> None:
        self._narrator.say(record.getMessage())


def _is_tty() -> bool:
    return sys.stdout.isatty()
