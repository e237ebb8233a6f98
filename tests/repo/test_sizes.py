"""The repository's own rules: how long modules and functions may be."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("operator", "stage", "testcluster", "images", "icons", "benchmarks", "demo", "tools")
MODULE_LIMIT = 400
MEDIAN_LIMIT = 120
FUNCTION_LIMIT = 40


def _modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of each function, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                length -= docstring.end_lineno - docstring.lineno + 1
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", length


def test_no_module_is_longer_than_the_limit():
    long = {
        str(path.relative_to(ROOT)): _lines(path)
        for path in _modules(*PRODUCT, "tests")
        if _lines(path) > MODULE_LIMIT
    }
    assert long == {}


def test_the_median_module_is_short():
    modules = [path for path in _modules(*PRODUCT) if path.name != "__init__.py"]
    assert statistics.median(map(_lines, modules)) <= MEDIAN_LIMIT


def test_no_function_is_longer_than_the_limit():
    functions = [each for path in _modules(*PRODUCT, "tests") for each in _functions(path)]
    assert {name: length for name, length in functions if length > FUNCTION_LIMIT} == {}
