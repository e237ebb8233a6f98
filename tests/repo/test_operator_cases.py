"""`docs/operator-cases.md` has each row once, and names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operator-cases.md").read_text()
NODE_ID = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (T\d\d) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
OPEN = {"T53", "T60"}  # rows without any test


def names(path):
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_every_test_that_it_names_is_there():
    named = NODE_ID.findall(TEXT)
    assert len(named) > 60
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or name not in names(path)
    ]
    assert missing == []


def test_every_row_is_there_once_and_has_a_test_or_is_open():
    rows = ROW.findall(TEXT)
    assert len({row for row, _ in rows}) == len(rows) == 52
    above = {row for row, tests in rows if tests.startswith("〃")}
    assert {row for row, tests in rows if not NODE_ID.search(tests)} - above == OPEN
