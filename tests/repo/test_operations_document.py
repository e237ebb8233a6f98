"""`docs/operations.md` explains every reason that the operator may give, and every exit code."""

import ast
import re
from pathlib import Path

import pytest

from diffusion_operator.failures import OOM, REASONS

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "operator" / "diffusion_operator"
DOCUMENT = (ROOT / "docs" / "operations.md").read_text()
REASON_AT = {"Verdict": 1, "Obstacle": 0, "Trouble": 1}  # where each has its reason


def given():
    """The reasons that the code writes down, wherever it makes a condition or an Event of one."""
    for path in OPERATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            yield from _reasons(node)


def _reasons(node):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        place = REASON_AT.get(node.func.id)
        if place is not None and len(node.args) > place:
            yield from _texts(node.args[place])
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
        yield from _texts(node.value)
    if isinstance(node, ast.FunctionDef) and node.name == "_cause":
        yield from (
            text for one in ast.walk(node) if isinstance(one, ast.Return) for text in _texts(one)
        )
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "reason":
                yield from _texts(value)


def _texts(node):
    found = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return [
        text for text in found if isinstance(text, str) and re.fullmatch("[A-Z][A-Za-z]+", text)
    ]


def test_the_code_gives_reasons():
    assert {"AllReplicasReady", "Held", "ImagePull", "PodReplaced"} <= set(given())


@pytest.mark.parametrize("reason", sorted({*given(), *REASONS.values(), OOM}))
def test_every_reason_is_explained(reason):
    assert f"`{reason}`" in DOCUMENT


@pytest.mark.parametrize(("code", "reason"), REASONS.items())
def test_every_exit_code_is_explained_beside_its_reason(code, reason):
    assert f"| `{reason}` | {code} |" in DOCUMENT
