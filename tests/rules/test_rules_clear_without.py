"""A rule may say without what it is clear: then most of its SQL is not run, and the diagnosis is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceanalyzer
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.evaluation.verdicts import verdict_sql
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim.rule_tests import run_rule_test

SAMPLES = Path(__file__).parents[2] / "sample_traces"
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
RULES = load_rules(tests=False)
FORMATS = ("kineto", "nsys", "xla", "amd")
NO_RUNS = {".md", ".csv", "rocprof1_results.db"}  # the database of rocprof 1 is refused by name
REAL = [
    path for part in FORMATS for path in sorted((CORPUS / part).glob("*.*")) if not {path.name, path.suffix} & NO_RUNS
]
SIMULATED = [path for path in sorted(SAMPLES.iterdir()) if path.is_dir() and path.name[0] != "_"]
RUNS = [
    *(pytest.param(path, marks=[] if path.name == "slow_loader" else pytest.mark.check) for path in SIMULATED),
    *(pytest.param(path, marks=pytest.mark.check) for path in REAL),
]
# A select costs about as much as reading a megabyte of trace. Of 129 rules, so many have something to look for in the
# smallest sample: a rule beside them says without what it is clear, or its select is worth as much.
MOST_SELECTS = 40


def diagnosed(run: traceanalyzer.Run, rules: list[Rule]) -> Diagnosis:
    with run.connected(readers(rules)) as connection:
        return diagnose(connection, rules, run_name="run")


@pytest.mark.check
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_diagnosis_is_the_same_where_all_sql_is_run(path: Path, tmp_path: Path) -> None:
    with traceanalyzer.open_run(path, store=tmp_path) as run:
        whole = diagnosed(run, [replace(rule, clear_without=None) for rule in RULES])
        assert diagnosed(run, RULES) == whole


def test_few_selects_are_run_on_a_small_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    query = sandbox.query

    def noted(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any], *limit: float) -> sandbox.Rows:
        asked.append(sql)
        return query(con, sql, values, *limit)

    monkeypatch.setattr(sandbox, "query", noted)
    with traceanalyzer.open_run(SAMPLES / "slow_loader", store=tmp_path) as run:
        found = diagnosed(run, RULES)
    selects = {verdict_sql(rule): rule.id for rule in RULES}
    run_of = sorted(selects[sql] for sql in asked if sql in selects)
    assert {finding.rule for finding in found.findings} <= set(run_of)
    assert len(run_of) <= MOST_SELECTS, run_of


def test_a_rule_that_fires_without_what_it_says_that_it_needs_fails_its_tests() -> None:
    rule = next(rule for rule in load_rules() if rule.id == "dataloader-bound")
    test = next(test for test in rule.tests if test.sim is not None and test.expect["state"] == "fired")
    assert run_rule_test(rule, test).failures == ()
    wrong = run_rule_test(replace(rule, clear_without="process_output"), test)
    assert wrong.failures == ("it is not clear, although there is no row FROM process_output",)


@pytest.mark.check
def test_a_finding_whose_sql_says_nothing_of_a_run_stays_away(tmp_path: Path) -> None:
    with traceanalyzer.open_run(SAMPLES / "slow_loader", store=tmp_path) as run:
        found = diagnosed(run, RULES)
        assert "dataloader-bound" in {finding.rule for finding in found.findings}
        rules = [
            replace(rule, clear_without="process_output") if rule.id == "dataloader-bound" else rule for rule in RULES
        ]
        states = {(item.rule, item.state) for item in diagnosed(run, rules).outcomes}
    assert ("dataloader-bound", "clear") in states
