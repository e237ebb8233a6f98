"""Every rule of the document has a test that names it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_rule_is_named_by_a_test():
    rules = re.findall(
        r"^\| ([A-Z]+-[A-Z0-9-]+) \|", (ROOT / "docs/invariants.md").read_text(), re.M
    )
    tests = "\n".join(path.read_text() for path in (ROOT / "tests/stage").rglob("test_*.py"))
    named = set(re.findall(r"[A-Z]+-[A-Z0-9-]*\d+", tests))
    assert len(rules) == 16
    assert [rule for rule in rules if rule not in named] == []
