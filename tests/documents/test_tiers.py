"""The check leaves nothing out: it has what its tests need, and it is what continuous integration runs."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from tiers import IN_CHECK, examples, needed

from traceanalyzer.rules import load_rules


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
    assert "--durations=10" in runs["check"][-1]
    assert runs["quick"][-1].endswith('-m "not check"')
    assert re.search(r"\$\(MAKE\) .* types quick$", recipes["test"], re.MULTILINE)
    assert "make check" in (root / ".ci" / "run").read_text()


@pytest.mark.check
def test_the_longest_tests_begin_first(root: Path) -> None:
    found = ran(root, "tests/documents", "--collect-only").splitlines()
    first = [line for line in found if "::" in line][:2]
    assert {name.split("::")[1].partition("[")[0] for name in first} == {"test_pages_are_up_to_date"}


def test_the_loop_tries_few_examples_and_the_check_sixty_or_more() -> None:
    assert examples(10).max_examples == settings().max_examples == (60 if IN_CHECK else 15)
    assert examples(200).max_examples == (200 if IN_CHECK else 15)


@pytest.mark.check
def test_the_tests_of_one_rule_are_all_of_its_own_and_no_other_ones(root: Path) -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.test", "test", "RULE=launch-bound"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (chosen,) = re.findall(r"-k '(.*)'", recipe)
    found = ran(root, "tests/rules/test_rules_builtin.py", "--collect-only", "-k", chosen)
    (rule,) = (rule for rule in load_rules() if rule.id == "launch-bound")
    named = re.findall(r"::test_rule_says_what_its_test_expects\[(.+?): (.+)\]$", found, re.MULTILINE)
    assert sorted(named) == sorted((rule.id, test.name) for test in rule.tests)
    assert not [line for line in found.splitlines() if "[" in line and "[launch-bound" not in line]


@pytest.mark.check
def test_the_cpu_seconds_of_a_suite_are_those_of_its_tests(root: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    ran(root, "tests/documents/test_tiers.py", "-k", "few_examples", f"--junitxml={report}")
    tests, cpu_s = runpy.run_path(str(root / "tests/benchmarks/bench_tests.py"))["suite_costs"](report)
    assert tests == {"documents": 1}
    assert cpu_s["documents"] >= 0


def ran(root: Path, *options: str) -> str:
    """Run pytest as a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
