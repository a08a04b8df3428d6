"""Runs the tests that rules carry: each must say what its test expects, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer import attribution
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.authoring.fixtures import rule_workspace
from traceanalyzer.rules.diagnosis.explaining import unmet
from traceanalyzer.rules.diagnosis.firing import MIN_IMPACT_SHARE, clear_if_little
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.fix_names import with_trace_names
from traceanalyzer.rules.evaluation.places import read_places
from traceanalyzer.rules.evaluation.removals import RememberedScan
from traceanalyzer.rules.evaluation.run_savings import RunSavings
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.evaluation.verdicts import Question, Verdict, evaluate
from traceanalyzer.rules.rule_file.model import ABSTAINED, CLEAR, FINDING, FIRED, ParamValue, Rule, RuleTest
from traceanalyzer.rules.rule_file.template import render
from traceanalyzer.rules.rule_set.loading import check_settings

# What an expectation may ask for besides columns of the select.
_KEYS = ("state", "reason", "severity", "confidence", "message", "fix", "trace", "rank", "device")


@dataclass(frozen=True)
class RuleTestResult:
    """What became of one inline test; `failures` is empty when it passed, `row` is what the rule's select returned."""

    rule: str
    test: str
    path: Path
    line: int
    failures: tuple[str, ...]
    row: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        return not self.failures


def run_rule_tests(rules: Sequence[Rule]) -> list[RuleTestResult]:
    """Return the result of every inline test of the rules, in their order."""
    return [run_rule_test(rule, test) for rule in rules for test in rule.tests]


def run_rule_test(rule: Rule, test: RuleTest) -> RuleTestResult:
    """Return the result of one inline test."""
    row: Mapping[str, Any] = {}
    try:
        with rule_workspace(test.sim, test.tables, readers=readers([rule])) as con:
            verdict = _wanted(_verdicts(con, rule, test), test.expect)
            if verdict is None:
                failures: tuple[str, ...] = ("the rule says nothing about any place; its select returned no row",)
            else:
                row, failures = verdict.row, tuple(_failures(verdict, rule, test))
                if failures and verdict.state == CLEAR and test.expect["state"] == FIRED and row:
                    failures += tuple(unmet(con, rule, _values(rule, test), verdict))
    except (TraceAnalyzerError, ValueError, sandbox.RuleQueryError, duckdb.DataError) as error:
        hint = f"; {error.hint}" if isinstance(error, TraceAnalyzerError) and error.hint else ""
        failures = (f"cannot run: {error}{hint}",)
    return RuleTestResult(rule.id, test.name, rule.path, test.line, failures, row)


def _values(rule: Rule, test: RuleTest) -> dict[str, ParamValue]:
    settings = check_settings([rule], {f"{rule.id}.{name}": value for name, value in test.params.items()})
    return rule.values(settings.get(rule.id))


def _verdicts(con: duckdb.DuckDBPyConnection, rule: Rule, test: RuleTest) -> list[Verdict]:
    # Literal rows leave out what a trace recorded: then the test is about the condition, not about requirements.
    assumed = test.sim is None and "capabilities" not in test.tables and "traces" not in test.tables
    bounds = None if "bound" in test.tables or test.sim is None else attribution.Bounds.load(con)
    scan, run_savings = (None, None) if bounds is None else (RememberedScan(bounds), RunSavings(bounds))
    question = Question(scan, assume_requirements=assumed, run_savings=run_savings)
    run = read_places(con, with_capabilities=not assumed)
    verdicts = evaluate(con, rule, run, _values(rule, test), question)
    return [clear_if_little(verdict, MIN_IMPACT_SHARE) for verdict in verdicts]


def _wanted(verdicts: Sequence[Verdict], expect: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict that an expectation is about: of the rank or device it names, else the one that says most."""
    chosen = [
        verdict
        for verdict in verdicts
        if all(verdict.row.get(key, expect[key]) == expect[key] for key in ("trace", "rank", "device") if key in expect)
    ]
    order = (FIRED, ABSTAINED, "clear")
    return min(chosen, key=lambda verdict: order.index(verdict.state), default=None)


def _failures(verdict: Verdict, rule: Rule, test: RuleTest) -> list[str]:
    failures = []
    seen: dict[str, Any] = {
        **verdict.row,
        "state": verdict.state,
        "reason": verdict.reason,
        "severity": verdict.severity,
        "confidence": verdict.confidence.level,
        "fix": _headline_fix(verdict),
    }
    if verdict.row and verdict.state == FIRED:
        seen["message"] = render(rule.message, {**rule.values(test.params), **verdict.row})
    for key, wanted in test.expect.items():
        if key not in seen and key not in _KEYS:
            missing = "which the select does not return" if verdict.row else "and there is no row"
            failures.append(f"expects '{key}', {missing}")
        elif not _fits(seen.get(key), wanted, key):
            failures.append(f"{key} is {_shown(seen.get(key))}, expected {_shown(wanted)}")
    if failures and verdict.reason is not None and "reason" not in test.expect:
        failures.append(f"it gives the reason {verdict.reason}: {verdict.detail}")
    if verdict.state == "clear" and not verdict.row and rule.kind == FINDING:
        failures.append("the select returned no row for a healthy device; join from `bound` or `windows`")
    return failures


def _headline_fix(verdict: Verdict) -> str | None:
    if not verdict.fix_order:
        return None
    fix = with_trace_names(verdict.rule.fixes[verdict.fix_order[0]], verdict.row)
    return " ".join(f"{fix.text} {fix.code or ''}".split())


def _fits(value: Any, wanted: Any, key: str) -> bool:
    if isinstance(wanted, list) and len(wanted) == 2:
        return value is not None and wanted[0] <= value <= wanted[1]
    if key in ("message", "fix", "detail"):
        return value is not None and " ".join(str(wanted).split()) in value
    return bool(value == wanted)


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) == 2:
        return f"{value[0]} to {value[1]}"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
