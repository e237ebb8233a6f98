"""CURVE keys as text: 32 bytes as 40 characters of Z85, as they lie in files.

CURVE: https://rfc.zeromq.org/spec/26/, Z85: https://rfc.zeromq.org/spec/32/. `#` is a character of
Z85, so a file of bare keys has no comments.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

from zmq.utils import z85

from diffusion_stage.errors import InvalidArgumentError

KEY_LENGTH = 40
EXPECTED = f"{KEY_LENGTH} characters of Z85"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows to a stage, and the key by which it knows the stage."""

    public_key: str
    secret_key: str = field(repr=False)
    server_key: str


def is_key(text: str) -> bool:
    """Whether the text stands for 32 bytes."""
    if len(text) != KEY_LENGTH or not text.isascii():
        return False
    try:
        z85.decode(text)
    except (KeyError, struct.error):  # no character of Z85; five of them above 2³²
        return False
    return True


def read_key(path: Path) -> str:
    """The key that is the one line of a file.

    Raises `InvalidArgumentError`, which never quotes the file: its content may be a secret.
    """
    lines = _lines(path)
    if len(lines) != 1 or not is_key(lines[0]):
        found = f"{len(lines)} lines" if len(lines) != 1 else f"{len(lines[0])} characters"
        raise _wrong(path, f"{found} that are no key; allowed: one line of {EXPECTED}")
    return lines[0]


def read_keys(path: Path) -> tuple[str, ...]:
    """Public keys, one a line; at least one, else it raises `InvalidArgumentError`."""
    lines = _lines(path)
    for line in lines:
        if not is_key(line):
            raise _wrong(path, f"{line!r:.100} is no key; allowed: {EXPECTED} in each line")
    if not lines:
        raise _wrong(path, f"no key; allowed: {EXPECTED} in each line")
    return tuple(dict.fromkeys(lines))


def _lines(path: Path) -> list[str]:
    """Without the blank ones."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(path, f"{error.strerror}; allowed: a file of {EXPECTED} a line") from None
    except UnicodeDecodeError:
        raise _wrong(path, f"no text; allowed: {EXPECTED}") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _wrong(path: Path, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: {what}", field="curve")
