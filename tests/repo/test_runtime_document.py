"""`docs/runtime.md` names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NODE_ID = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names(path):
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_every_test_that_it_names_is_there():
    named = NODE_ID.findall((ROOT / "docs" / "runtime.md").read_text())
    assert len(named) > 100
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or name not in names(path)
    ]
    assert missing == []
