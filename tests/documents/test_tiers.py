"""The check leaves nothing out: it has what its tests need, and it is what continuous integration runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tiers import needed


@pytest.mark.check
@pytest.mark.parametrize("name", ["hatchling", "hta", "jsonschema", "torch"])
def test_nothing_that_a_test_of_the_check_needs_is_missing(name: str) -> None:
    needed(name)


def test_the_check_leaves_no_test_out_and_the_loop_only_those_of_the_check(root: Path) -> None:
    recipes = dict(
        re.findall(r"^(test|quick|check): (.*\n(?:.*\S.*\n)+)", (root / "Makefile").read_text(), re.MULTILINE)
    )
    runs = {tier: re.findall(r"/pytest (.*)", recipe) for tier, recipe in recipes.items()}
    assert [options for options in runs["check"] if " -m " in options or " -k " in options] == []
    assert runs["quick"][-1].endswith('-m "not check"')
    assert re.search(r"\$\(MAKE\) .* types quick$", recipes["test"], re.MULTILINE)
    assert "make check" in (root / ".ci" / "run").read_text()
