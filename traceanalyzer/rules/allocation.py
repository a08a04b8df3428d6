"""Shares the time of each device out among the findings that fired there, so that no two own the same nanosecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.rules import sandbox
from traceanalyzer.rules.bounds import claim_values, claimed_sql
from traceanalyzer.rules.model import ParamValue, Rule
from traceanalyzer.rules.places import Place, Run
from traceanalyzer.rules.verdicts import Verdict

# A finding's place among those that claim; one about the whole run is charged on every device.
_TABLES = (
    "CREATE OR REPLACE TEMP TABLE claim_order (rule VARCHAR, trace_id INTEGER, device INTEGER, position INTEGER)",
    "CREATE OR REPLACE TEMP TABLE claims (position INTEGER, row_trace_id INTEGER, row_device INTEGER,"
    " item_id BIGINT, dur_ns BIGINT, bucket VARCHAR)",
)


def share_out(
    con: duckdb.DuckDBPyConnection,
    run: Run,
    fired: Sequence[Verdict],
    values: Mapping[str, Mapping[str, ParamValue]],
) -> dict[tuple[str, Place], int]:
    """Return the nanoseconds each fired finding owns, by rule id and place.

    Of the findings that claim a row, the one takes it whose rule refines most deeply, then the one with the larger
    bound, then the first by id. The claims stay in the connection for `unexplained`.
    """
    for statement in _TABLES:
        con.execute(statement)
    claiming = [verdict for verdict in fired if not verdict.rule.claims.is_empty]
    depths = _depths([verdict.rule for verdict in claiming])
    order = sorted(claiming, key=lambda verdict: (-depths[verdict.rule.id], -(verdict.bound_ns or 0), verdict.rule.id))
    for position, verdict in enumerate(order):
        for trace_id, device in verdict.devices(run):
            con.execute("INSERT INTO claim_order VALUES (?, ?, ?, ?)", [verdict.rule.id, trace_id, device, position])
    for rule in {verdict.rule.id: verdict.rule for verdict in claiming}.values():
        _write_claims(con, rule, values[rule.id])
    owned = sandbox.query(con, _text("owned_time"), {}, sandbox.UNLIMITED).rows
    return {(order[position].rule.id, order[position].place): int(owned_ns) for position, owned_ns in owned}


def unexplained(con: duckdb.DuckDBPyConnection) -> tuple[tuple[str, int], ...]:
    """Return the time of the analysis windows that is no compute and that no finding owns, by bucket, largest first."""
    rows = sandbox.query(con, _text("unexplained_time"), {}, sandbox.UNLIMITED).rows
    return tuple((bucket, int(dur_ns)) for bucket, dur_ns in rows)


def _write_claims(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, ParamValue]) -> None:
    sql = claimed_sql(rule)
    if sql is None:
        return
    # The claim was run as a SELECT of its own before this; only what passed there gets here.
    names = sandbox.check_select(con, sql)
    known = claim_values(rule, {**values, "rule": rule.id})
    con.execute(
        f"INSERT INTO claims SELECT position, row_trace_id, row_device, item_id, dur_ns, bucket FROM (\n{sql}\n)"
        " AS claimed JOIN claim_order USING (trace_id, device) WHERE claim_order.rule = $rule",
        {name: known[name] for name in names | {"rule"}},
    )


def _depths(rules: Sequence[Rule]) -> dict[str, int]:
    """Return how many refinements each rule is deep; a loop of refinements ends where it closes."""
    refines = {rule.id: rule.refines for rule in rules}

    def depth(rule_id: str, above: frozenset[str]) -> int:
        parents = [name for name in refines.get(rule_id, ()) if name not in above]
        return max((1 + depth(name, above | {rule_id}) for name in parents), default=0)

    return {rule_id: depth(rule_id, frozenset({rule_id})) for rule_id in refines}


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()
