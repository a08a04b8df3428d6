"""Checks every piece of SQL of every rule against empty tables, and returns each mistake with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from traceanalyzer.attribution.columns import CAUSES, EXPLAINED
from traceanalyzer.errors import suggestion
from traceanalyzer.query import engine
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import claim_values
from traceanalyzer.rules.evaluation.sandbox import lock_workspace
from traceanalyzer.rules.evaluation.verdicts import AUTO_SEVERITIES
from traceanalyzer.rules.rule_file.model import FINDING, HOST, Mistake, Rule, format_value, template_fields

# What evaluation itself makes of a finding's row.
_NEEDED_BY_FINDINGS = ("trace", "device")
_NEEDED_BY_CLAIMS = ("bound_ns", "bound_share", "window_ns")
_OPS_COLUMNS = {"trace_id", "op_id"}
_ROWS_COLUMNS = {"trace_id", "device", "row_id"}
_SAVING_COLUMNS = {*_OPS_COLUMNS, "saving_ns"}


def bind_rules(rules: Sequence[Rule]) -> list[Mistake]:
    """Return every mistake in the SQL, names and templates of the rules; no trace is needed.

    What could not be read of a rule is empty, and a mistake already.
    """
    if not rules:
        return []
    con = engine.connect_empty()
    lock_workspace(con)
    capabilities = {name for (name,) in con.execute("SELECT capability FROM capability_kinds").fetchall()}
    return [mistake for rule in rules for mistake in _Binder(con, rule).mistakes(capabilities)]


class _Binder:
    """Binds the pieces of one rule, in the order in which they build on each other."""

    def __init__(self, con: duckdb.DuckDBPyConnection, rule: Rule) -> None:
        self.con = con
        self.rule = rule
        self.values: dict[str, Any] = dict(rule.values())

    def mistakes(self, capabilities: set[str]) -> list[Mistake]:
        names = [*self._names(capabilities)]
        for key, sql, needed in (("ops", self.rule.ops, _OPS_COLUMNS), ("rows", self.rule.rows, _ROWS_COLUMNS)):
            if selected := [*self._rows(key, sql, needed)]:
                return names + selected  # other SQL reads these rows, and would repeat what is wrong with them
        return [
            *names,
            *self._clear_without(),
            *self._rows("op_saving", self.rule.op_saving, _SAVING_COLUMNS),
            *self._claims(),
            *self._select(),
        ]

    def _mistake(self, key: str, what: str, hint: str | None = None, line: int = 1) -> Mistake:
        return self.rule.mistake(key, f"{self.rule.id}: {what}", hint, line)

    def _names(self, capabilities: set[str]) -> Iterator[Mistake]:
        for index, name in enumerate(self.rule.requires):
            if name not in capabilities:
                yield self._mistake(
                    f"requires.{index}", f"unknown capability: {name}", suggestion(name, sorted(capabilities))
                )
        removes = self.rule.removes if "removes" in self.rule.lines else ()
        claimed = EXPLAINED if self.rule.says_its_bound else CAUSES
        for key, names, known in (("claims", self.rule.claims.causes, claimed), ("removes", removes, CAUSES)):
            for name in names:
                if name not in known:
                    yield self._mistake(key, f"unknown cause: {name}", suggestion(name, sorted(known)))

    def _clear_without(self) -> Iterator[Mistake]:
        if self.rule.clear_without:
            yield from self._bound("clear_without", f"SELECT 1 FROM {self.rule.clear_without}", self.values)[1]

    def _rows(self, key: str, sql: str | None, needed: set[str]) -> Iterator[Mistake]:
        if not sql:
            return
        columns, mistakes = self._bound(key, sql, self.values)
        yield from mistakes
        if not mistakes and not columns.keys() >= needed:
            yield self._mistake(key, f"must return {', '.join(sorted(needed))}")

    def _claims(self) -> Iterator[Mistake]:
        claims = self.rule.claims
        for key, condition, table in (
            ("claims.where", claims.where, "ledger_rows"),
            ("claims.compute_ops", claims.compute_ops, "kernel_class"),
        ):
            if condition:
                yield from self._bound(key, f"SELECT ({condition}\n) FROM {table}", self.values)[1]

    def _select(self) -> Iterator[Mistake]:
        if not self.rule.select:
            return
        columns, mistakes = self._bound("select", self.rule.select, self.values)
        if mistakes:
            yield from mistakes
            return
        for column in _needed(self.rule):
            if column not in columns:
                yield self._mistake("select", f"the select must return the column '{column}'")
        subject = f"WITH subject AS (\n{self.rule.select}\n) SELECT "
        conditions = [*self.rule.conditions()]
        if self.rule.severity not in AUTO_SEVERITIES:
            conditions.insert(1, ("severity", self.rule.severity))
        for key, condition in conditions:
            if condition:
                yield from self._bound(key, f"{subject}({condition}\n) FROM subject", self.values)[1]
        known = {**self.values, **{name: _sample(kind) for name, kind in columns.items()}}
        for index, abstention in enumerate(self.rule.abstain):
            yield from self._template(f"abstain.{index}.detail", abstention.detail or "", known)
        yield from self._template("message", self.rule.message, known)
        for index, fix in enumerate(self.rule.fixes):
            for word, column in fix.names.items():
                if column not in known:
                    what = f"no column or parameter is called '{column}'"
                    yield self._mistake(f"fixes.{index}.names.{word}", what, suggestion(column, known))
        for index, item in enumerate(self.rule.evidence):
            if item.select:
                values = {**claim_values(self.rule, known), "trace_id": 0}
                yield from self._bound(f"evidence.{index}.select", item.select, values)[1]

    def _template(self, key: str, template: str, known: Mapping[str, Any]) -> Iterator[Mistake]:
        for name, spec in template_fields(template):
            if name not in known:
                yield self._mistake(key, f"no column or parameter is called '{name}'", suggestion(name, known))
                continue
            try:
                format_value(known[name], spec)
            except (ValueError, TypeError) as error:
                yield self._mistake(key, f"{{{name}:{spec}}} does not fit: {error}")

    def _bound(self, key: str, sql: str, values: Mapping[str, Any]) -> tuple[dict[str, str], list[Mistake]]:
        """Return the columns that a piece of SQL would return, or what is wrong with it."""
        try:
            return sandbox.columns(self.con, sql, values), []
        except sandbox.RuleQueryError as error:
            what, hint = _split_hint(str(error))
            # Conditions stand behind the select; their own text is one place for a message.
            is_whole = key in ("select", "ops", "rows", "op_saving", "clear_without") or key.endswith(".select")
            return {}, [self._mistake(key, what, hint, error.line if is_whole else 1)]


def _split_hint(error: str) -> tuple[str, str | None]:
    """Return the mistake in a message of DuckDB, and what DuckDB suggests instead."""
    for mark in ("Did you mean", "Candidate bindings:", "Candidate functions:"):
        what, found, hint = error.partition(mark)
        if found:
            return what.strip(), f"did you mean {hint.strip()}"
    return error.strip(), None


def _needed(rule: Rule) -> tuple[str, ...]:
    if rule.scope == HOST:
        return ("trace",)
    of_findings = _NEEDED_BY_FINDINGS if rule.kind == FINDING else ()
    return of_findings if rule.claims.is_empty else (*of_findings, *_NEEDED_BY_CLAIMS)


def _sample(kind: str) -> Any:
    kind = kind.upper()
    if kind in ("VARCHAR", "STRING"):
        return "text"
    if kind in ("BOOLEAN", "BOOL"):
        return True
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        return 1.0
    return 1 if "INT" in kind or kind == "NUMBER" else None
