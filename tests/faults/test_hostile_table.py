"""The table of hostile cases names tests that exist, and a test for each case."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parents[1]
ROWS = [
    line
    for line in (HERE / "HOSTILE.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| group", "| without", "| ---"))
]
GROUPS = 14


@cache
def functions_of(file: str) -> frozenset[str]:
    """Return the functions that a file of tests defines."""
    body = [node for path in HERE.rglob(file) for node in ast.parse(path.read_text(encoding="utf-8")).body]
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def test_every_case_has_a_test_and_every_test_is_there() -> None:
    assert len(ROWS) > GROUPS
    for row in ROWS:
        ids = re.findall(r"`(\w+\.py)::(\w+)`", row)
        assert ids, row
        assert [f"{file}::{name}" for file, name in ids if name not in functions_of(file)] == []


def test_every_group_has_a_case() -> None:
    groups = {row.split("|")[1].strip() for row in ROWS}
    assert {str(number) for number in range(1, GROUPS + 1)} <= groups
