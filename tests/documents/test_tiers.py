"""The tiers together leave no test out, and continuous integration runs what people run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from tiers import (
    SHARES,
    TIER,
    cost_table,
    example_count,
    examples,
    is_further,
    needed,
    selected,
    shard,
    share,
    share_of_commit,
)

from traceanalyzer.rules.rule_set.loading import load_rules


@pytest.mark.check
@pytest.mark.parametrize("name", ["hatchling", "hta", "jsonschema", "torch"])
def test_nothing_that_a_test_of_the_check_needs_is_missing(name: str) -> None:
    needed(name)


def test_make_runs_the_tiers_and_continuous_integration_the_check(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    recipes = dict(re.findall(r"^(test|quick|check|more|nightly): (.*\n(?:.*\S.*\n)*)", makefile, re.MULTILINE))
    assert recipes["quick"].rstrip().endswith("--tier quick")
    assert re.search(r"\$\(MAKE\) .* types quick$", recipes["test"], re.MULTILINE)
    assert recipes["check"].startswith("test more ")
    assert "--tier check" in recipes["more"] and "--shard" not in recipes["more"]
    assert "--shard $(SHARD)" in recipes["nightly"] and "--tier" not in recipes["nightly"]
    for recipe in recipes.values():
        assert not re.search(r"/pytest (?!tests/rules).* -[mk] ", recipe)
    ran_by_ci = [line.split(" #")[0].strip() for line in (root / ".ci" / "run").read_text().splitlines()]
    assert [line for line in ran_by_ci if line.startswith("make ")] == ["make test", "make more"]
    assert "make nightly SHARD=" in (root / ".github" / "workflows" / "nightly.yml").read_text()


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("gate", [False, True])
def test_the_tiers_together_are_all_tests(marked: bool, gate: bool) -> None:
    def runs(tier: str, chosen: int) -> bool:
        return selected("tests/a.py::test_b", marked=marked, gate=gate, tier=tier, chosen=chosen)

    assert runs("quick", 0) is not marked
    added = [runs("check", chosen) for chosen in range(SHARES)]
    assert sum(added) == (0 if not marked else SHARES if gate else 1)
    assert runs("all", 0)


def test_one_case_of_a_sampled_test_is_quick() -> None:
    begun: set[str] = set()
    cases = ["a.py::test_a[1]", "a.py::test_a[2]", "a.py::test_b[1]", "b.py::test_a[1]", "a.py::test_a[3]"]
    assert [is_further(case, begun) for case in cases] == [False, True, False, False, True]


def test_shards_share_out_every_test_once() -> None:
    names = [f"tests/a.py::test_b[{number}]" for number in range(1000)]
    assert sorted(name for k in range(4) for name in names if share(name, 4) == k) == sorted(names)
    assert [shard(text) for text in ("1/1", "1/4", "4/4")] == [(0, 1), (0, 4), (3, 4)]
    for text in ("0/4", "5/4", "4", "a/b", "1/0"):
        with pytest.raises(ValueError, match="K/N"):
            shard(text)


def test_the_share_is_the_commits(root: Path, tmp_path: Path) -> None:
    assert share_of_commit(tmp_path / "none") == 0
    assert share_of_commit(root) in range(SHARES)


def test_commits_of_the_same_content_choose_the_same_share(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    chosen = []
    for number in range(8):
        (tmp_path / "file").write_text(str(number // 2))
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"commit {number}"], check=True)
        chosen.append(share_of_commit(tmp_path))
    assert chosen[::2] == chosen[1::2]
    assert len(set(chosen)) > 1


@pytest.mark.check
@pytest.mark.gate
def test_all_tests_are_collected_without_a_corpus(root: Path, tmp_path: Path) -> None:
    """A clone that stands alone has no folder of others' traces beside it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only", "-q"]
    environment = {**os.environ, "TRACEANALYZER_CORPUS": str(tmp_path / "none")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"^\d+ tests of this tier need a corpus of real traces, ", done.stdout, re.MULTILINE)


@pytest.mark.check
@pytest.mark.skipif(TIER != "nightly", reason="the quick tests a second time: nightly only")
def test_the_quick_tests_pass_without_a_corpus(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "--tier", "quick", "-q"]
    environment = {**os.environ, "TRACEANALYZER_CORPUS": str(tmp_path / "none"), "TRACEANALYZER_TIER": "loop"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.check
def test_the_longest_tests_begin_first(root: Path) -> None:
    found = ran(root, "tests/documents", "--collect-only").splitlines()
    first = [line for line in found if "::" in line][:2]
    assert {name.split("::")[1].partition("[")[0] for name in first} == {
        "test_the_site_builds_with_a_page_for_every_rule_metric_and_table",
        "test_what_is_built_holds_every_rule_and_query_and_runs_where_it_is_installed",
    }


def test_the_nightly_tier_tries_all_examples_and_the_check_a_quarter() -> None:
    assert [example_count(10, tier) for tier in ("loop", "check", "nightly")] == [15, 15, 60]
    assert [example_count(400, tier) for tier in ("loop", "check", "nightly")] == [15, 100, 400]
    assert examples(10).max_examples == settings().max_examples == example_count(60)


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


def test_the_table_of_costs_adds_up_and_begins_with_the_dearest_suite() -> None:
    noted = [
        ("tests/rules/test_a.py::b", 1.0),
        ("tests/page/test_c.py::d[1]", 2.5),
        ("tests/rules/x/test_e.py::f", 0.5),
    ]
    rows = ["| page | 1 | 2.5 |", "| rules | 2 | 1.5 |", "| all | 3 | 4.0 |"]
    assert cost_table(noted)[2:] == rows


@pytest.mark.check
def test_a_tier_ends_with_its_table_of_costs(root: Path) -> None:
    printed = ran(root, "--tier", "quick", "tests/documents/test_tiers.py", "-k", "all_examples")
    assert re.search(r"^\| documents \| 1 \| \d+\.\d \|$", printed, re.MULTILINE)


def ran(root: Path, *options: str) -> str:
    """Run pytest as a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
