"""Writes the module lists of `docs/structure.md` from the modules' own first sentences.

`python -m tools.structure` rewrites all below the marker line; what is above it is written by hand.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "structure.md"
MARKER = "<!-- Below: python -m tools.structure, which `make fix` runs. -->\n"
PACKAGES = (
    "stage/diffusion_stage",
    "operator/diffusion_operator",
    "testcluster",
    "images",
    "demo",
    "icons",
    "benchmarks",
    "tools",
)
SENTENCE = re.compile(r".+?\.(?=\s|$)")


def render(root: Path = ROOT) -> str:
    """A section for each package, a line for each module."""
    folders = [folder for name in PACKAGES for folder in _folders(root / name)]
    return "\n".join(_section(folder, root) for folder in folders)


def sentence(module: Path) -> str:
    """The first sentence of its docstring. Raises `ValueError` when there is none."""
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    paragraph = " ".join((docstring or "").partition("\n\n")[0].split())
    match = SENTENCE.match(paragraph)
    if match is None:
        raise ValueError(f"{module}: its docstring begins with no sentence, but {paragraph!r}")
    return match[0]


def _folders(folder: Path) -> Iterator[Path]:
    """The package, then its subpackages."""
    if (folder / "__init__.py").exists():
        yield folder
        for child in sorted(path for path in folder.iterdir() if path.is_dir()):
            yield from _folders(child)


def _section(folder: Path, root: Path) -> str:
    lines = [f"### `{folder.relative_to(root)}/`", "", sentence(folder / "__init__.py"), ""]
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    if modules:
        lines += ["| module | what it is |", "| --- | --- |"]
        lines += [f"| `{path.name}` | {_cell(sentence(path))} |" for path in modules]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Rewrites the document in place."""
    by_hand, marker, _ = DOCUMENT.read_text().partition(MARKER)
    if not marker:
        raise SystemExit(f"{DOCUMENT} has no line {MARKER!r}")
    DOCUMENT.write_text(f"{by_hand}{MARKER}\n{render()}")


if __name__ == "__main__":
    main()
