"""Runs the tests that rules carry: each must say what its test expects, row by row.

A test runs on a simulated workload, literal rows, or the one with tables of the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import Struct

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.query import engine
from traceanalyzer.query.empty import define_without_rows
from traceanalyzer.rules.diagnosis.explaining import unmet
from traceanalyzer.rules.diagnosis.firing import MIN_IMPACT_SHARE, clear_if_little
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import RememberedScan
from traceanalyzer.rules.evaluation.run_savings import RunSavings
from traceanalyzer.rules.evaluation.sandbox import BOUND_TABLE, lock_workspace, readers
from traceanalyzer.rules.evaluation.scopes import read_scopes
from traceanalyzer.rules.evaluation.verdicts import Question, Verdict, evaluate
from traceanalyzer.rules.rule_file.model import (
    ABSTAINED,
    CLEAR,
    FINDING,
    FIRED,
    ParamValue,
    Rule,
    RuleTest,
    render,
    with_trace_names,
)
from traceanalyzer.rules.rule_set.loading import check_settings
from traceanalyzer.schema import TableSchema, canonical_tables
from tracesim import in_memory
from tracesim.job import simulate_job

# What a literal row means when it does not say: the first device of a run of one trace, from PyTorch's profiler.
_DEFAULTS: dict[str, Any] = {
    "trace": "test",
    "trace_id": 0,
    "rank": 0,
    "device": 0,
    "recorder": "kineto",
    "framework": "pytorch",
}
_COUNTER = "$i"
_OWN = "attribution."  # before the name of an attribution table whose own rows are given
_EMPTY: dict[str, Any] = {"BOOLEAN": False, "INTEGER": 0, "BIGINT": 0, "DOUBLE": 0.0, "VARCHAR": ""}


@contextmanager
def rule_workspace(
    sim: Mapping[str, Any] | None, tables: Mapping[str, Any], readers: Sequence[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Lend the one connection of all rule tests, locked as a rule finds it and filled as by `fill_fixture`."""
    with in_memory.undone(_locked()) as con:
        fill_fixture(con, sim, tables, readers)
        yield con


@cache
def _locked() -> duckdb.DuckDBPyConnection:
    con = engine.connect_empty()
    lock_workspace(con)
    return con


def fill_fixture(
    con: duckdb.DuckDBPyConnection,
    sim: Mapping[str, Any] | None,
    tables: Mapping[str, Any],
    readers: Sequence[str] | None = None,
) -> None:
    """Put a simulated run and literal rows into an empty connection.

    Rows of a canonical table replace the simulated ones; rows of a metric or a computed table replace what it would
    return, columns that a row leaves out being NULL. Metrics that build on it do not see these, unless the name is that
    of an attribution table with its schema: then they become the table's own. With `readers` the connection has the
    rows that these texts read. Raises ValueError with the reason when a name is unknown.
    """
    canonical, derived = _simulated(None if sim is None else json.dumps(sim, sort_keys=True))
    replaced = {
        name: _filled(canonical_tables()[name], expand(rows))
        for name, rows in tables.items()
        if name in canonical_tables()
    }
    if replaced:
        canonical = {**canonical, **replaced}
        derived = in_memory.derive(canonical)
    derived = {**derived, **_own_rows(tables)}
    asking = None if readers is None else (*readers, *tables, "traces", "windows")
    in_memory.fill(con, canonical, derived, asking, tables.keys() - canonical_tables().keys())
    con.execute(BOUND_TABLE)
    for name, rows in tables.items():
        if name not in canonical_tables() and not name.startswith(_OWN):
            replace_table(con, name, expand(rows))
    if sim is None and "windows" not in tables:
        _windows_of(con, tables)


def _own_rows(tables: Mapping[str, Any]) -> dict[str, pa.Table]:
    known = engine.derived_tables()
    given = {name.removeprefix(_OWN): rows for name, rows in tables.items() if name.startswith(_OWN)}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise ValueError(f"no attribution table is called '{unknown[0]}'; there are {', '.join(known)}")
    return {name: _filled(known[name], expand(rows)) for name, rows in given.items()}


@lru_cache(maxsize=16)
def _simulated(sim: str | None) -> tuple[Mapping[str, pa.Table], Mapping[str, pa.Table]]:
    """Return the canonical and the attribution tables of a workload, or of a trace without a record."""
    if sim is None:
        canonical: Mapping[str, pa.Table] = {"traces": _filled(canonical_tables()["traces"], [{"trace": "test"}])}
    else:
        # Rules share workloads: the healthy run is in the tests of every one.
        canonical = simulated_tables(sim)
    return canonical, in_memory.derive(canonical)


def simulated_tables(sim: str) -> Mapping[str, pa.Table]:
    """Return the canonical tables of a workload, which is JSON."""
    return simulate_job(json.loads(sim)).canonical_tables()


def expand(rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with `repeat: n` written out n times and "$i" replaced by the number of the repetition.

    Raises ValueError for what is no row.
    """
    expanded = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise ValueError(f"a table takes rows such as {{op_id: 0, dur_ns: 5000}}, and not {row!r}")
        values = {name: value for name, value in row.items() if name != "repeat"}
        for index in range(int(row.get("repeat", 1))):
            expanded.append({name: index if value == _COUNTER else value for name, value in values.items()})
    return expanded


def replace_table(con: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]]) -> None:
    """Hide a metric or computed table behind literal rows with its columns."""
    if name not in {*engine.metrics(), *engine.derived_tables(), "bound"}:
        raise ValueError(f"no table or metric is called '{name}'")
    if name in engine.metrics():  # a metric is not planned for its columns
        define_without_rows(con, name, name, "TEMP TABLE")
    elif name != "bound":
        con.execute(f'CREATE TEMP TABLE "{name}" AS FROM main."{name}" LIMIT 0')
    columns = [column[0] for column in con.execute(f'SELECT * FROM "{name}" LIMIT 0').description or ()]
    for row in rows:
        unknown = sorted(row.keys() - set(columns))
        if unknown:
            raise ValueError(f"{name} has no column '{unknown[0]}'; it has {', '.join(columns)}")
        full = {**{key: value for key, value in _DEFAULTS.items() if key in columns}, **row}
        names = ", ".join(f'"{key}"' for key in full)
        con.execute(f'INSERT INTO "{name}" ({names}) VALUES ({", ".join("?" * len(full))})', list(full.values()))


def _filled(table: TableSchema, rows: list[dict[str, Any]]) -> pa.Table:
    filled = []
    for row in rows:
        full = {column.name: _EMPTY[column.type] if column.required else None for column in table.columns}
        full |= {key: value for key, value in _DEFAULTS.items() if key in full}
        unknown = sorted(row.keys() - full.keys())
        if unknown:
            raise ValueError(f"{table.name} has no column '{unknown[0]}'; it has {', '.join(full)}")
        filled.append({**full, **row})
    return pa.Table.from_pylist(filled, schema=table.arrow_schema())


def _windows_of(con: duckdb.DuckDBPyConnection, tables: Mapping[str, Any]) -> None:
    """Give every device that literal rows name an analysis window, so that findings have a place to be about."""
    devices = {
        ({**_DEFAULTS, **row}["trace"], {**_DEFAULTS, **row}["device"])
        for name, rows in tables.items()
        if name not in canonical_tables()
        for row in rows
    }
    ids = dict(con.execute("SELECT trace, trace_id FROM canonical.traces").fetchall())
    rows = [
        {"trace_id": ids.get(trace, 0), "device": device, "window_ns": 0, "step_count": 0}
        for trace, device in sorted(devices, key=str)
        if device is not None
    ]
    replace_table(con, "windows", rows)


# What an expectation may ask for besides columns of the select.
_KEYS = ("state", "reason", "severity", "confidence", "message", "fix", "trace", "rank", "device")


class RuleTestResult(Struct, frozen=True):
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


def run_rule_test(rule: Rule, test: RuleTest) -> RuleTestResult:
    """Return the result of one inline test."""
    row: Mapping[str, Any] = {}
    try:
        with rule_workspace(test.sim, test.tables, readers=readers([rule])) as con:
            verdicts = _verdicts(con, rule, test)
            verdict = _wanted(verdicts, test.expect)
            if verdict is None:
                failures: tuple[str, ...] = ("the rule says nothing about any place; its select returned no row",)
            else:
                row, failures = verdict.row, tuple(_failures(verdict, rule, test))
                if failures and verdict.state == CLEAR and test.expect["state"] == FIRED and row:
                    failures += tuple(unmet(con, rule, _values(rule, test), verdict))
            if any(_decides(rule, each) for each in verdicts) and _is_without(con, rule, test):
                failures += (f"it is not clear, although there is no row FROM {rule.clear_without}",)
    except (TraceAnalyzerError, ValueError, sandbox.RuleQueryError, duckdb.DataError) as error:
        hint = f"; {error.hint}" if isinstance(error, TraceAnalyzerError) and error.hint else ""
        failures = (f"cannot run: {error}{hint}",)
    return RuleTestResult(rule.id, test.name, rule.path, test.line, failures, row)


def _decides(rule: Rule, verdict: Verdict) -> bool:
    """Return whether a rule fired, or abstained for a reason of its own."""
    return verdict.state == FIRED or verdict.reason in {"unknown", *(item.reason for item in rule.abstain)}


def _is_without(con: duckdb.DuckDBPyConnection, rule: Rule, test: RuleTest) -> bool:
    """Return whether a test has no row of what the rule is clear without; a literal `bound` needs none."""
    needed = rule.clear_without
    return (
        needed is not None
        and "bound" not in test.tables
        and not sandbox.query(con, f"SELECT 1 FROM {needed}\nLIMIT 1", _values(rule, test)).rows
    )


def _values(rule: Rule, test: RuleTest) -> dict[str, ParamValue]:
    settings = check_settings([rule], {f"{rule.id}.{name}": value for name, value in test.params.items()})
    return rule.values(settings.get(rule.id))


def _verdicts(con: duckdb.DuckDBPyConnection, rule: Rule, test: RuleTest) -> list[Verdict]:
    # Literal rows leave out what a trace recorded: then the test is about the condition, not about requirements.
    assumed = test.sim is None and "capabilities" not in test.tables and "traces" not in test.tables
    bounds = None if "bound" in test.tables or test.sim is None else Bounds.load(con)
    scan, run_savings = (None, None) if bounds is None else (RememberedScan(bounds), RunSavings(bounds))
    question = Question(scan, assume_requirements=assumed, run_savings=run_savings)
    run = read_scopes(con, with_capabilities=not assumed)
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
