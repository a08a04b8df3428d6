"""Fills the table `bound` for a rule: its lead-scan bound and the time its claims select, on every device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import duckdb

from traceanalyzer.rules import sandbox
from traceanalyzer.rules.model import Rule

Device = tuple[int, int]  # trace_id, device

_COLUMNS = 22  # of the table `bound`
# Twice the standard error of the mean step is noise, but no more than this: a cause seen in most steps is no chance.
_MAX_NOISE_SHARE = 0.05


class LeadScan(Protocol):
    """What attribution.Bounds offers: the time saved when causes cost nothing and kernels are shorter."""

    def bound(
        self, trace_id: int, device: int, removed: frozenset[str], savings: Mapping[int, int] | None = None
    ) -> int:
        """Return the nanoseconds of the analysis window that are saved."""

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds of a device cannot be trusted."""


@dataclass(frozen=True)
class Removal:
    """What fixing one or several findings takes away on a device."""

    causes: frozenset[str] = frozenset()
    savings: Mapping[int, int] = field(default_factory=dict)

    def joined(self, other: Removal) -> Removal:
        """Return both removals at once; an operation that both shorten is shortened by the larger saving."""
        savings = dict(self.savings)
        for op_id, saving_ns in other.savings.items():
            savings[op_id] = max(saving_ns, savings.get(op_id, 0))
        return Removal(self.causes | other.causes, savings)

    def bound_ns(self, scan: LeadScan, place: Device) -> int:
        return scan.bound(place[0], place[1], self.causes, self.savings or None)


def fill_bound(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    values: Mapping[str, Any],
    scan: LeadScan,
    fixed: Mapping[Device, Removal],
) -> dict[Device, Removal]:
    """Write the rule's row of `bound` for each device, and return what fixing the rule removes there.

    Where something is `fixed` already, the bound is what the rule adds to it.
    """
    removals = _removals(con, rule, values)
    claimed = _claimed(con, rule, values)
    con.execute("DELETE FROM bound")
    rows = []
    for window in _windows(con):
        place = (window["trace_id"], window["device"])
        removal = removals.setdefault(place, Removal(frozenset(rule.removes)))
        bound_ns = None if scan.abstains(*place) else _added_ns(scan, place, removal, fixed.get(place))
        rows.append(_bound_row(window, bound_ns, removal, claimed.get(place, {})))
    if rows:
        con.executemany(f"INSERT INTO bound VALUES ({', '.join('?' * _COLUMNS)})", rows)
    return removals


def _added_ns(scan: LeadScan, place: Device, removal: Removal, fixed: Removal | None) -> int:
    if fixed is None:
        return removal.bound_ns(scan, place)
    return max(0, fixed.joined(removal).bound_ns(scan, place) - fixed.bound_ns(scan, place))


def _removals(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any]) -> dict[Device, Removal]:
    if rule.op_saving is None:
        return {}
    rows = sandbox.query(con, _text("op_savings").replace("SELECT NULL /* op_saving */", rule.op_saving), values)
    savings: dict[Device, dict[int, int]] = {}
    for trace_id, device, op_id, saving_ns in rows.rows:
        savings.setdefault((trace_id, device), {})[op_id] = saving_ns
    causes = frozenset(rule.removes)
    return {place: Removal(causes, found) for place, found in savings.items()}


def _claimed(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any]) -> dict[Device, dict[str, Any]]:
    sql = claimed_sql(rule)
    if sql is None:
        return {}
    of_devices = _text("claimed_time").replace("SELECT NULL /* claimed */", sql)
    rows = sandbox.query(con, of_devices, claim_values(rule, values))
    return {(row["trace_id"], row["device"]): row for row in rows.dicts()}


def claimed_sql(rule: Rule) -> str | None:
    """Return a SELECT of the ledger rows or kernels that a rule claims: trace_id, device, item_id, step, dur_ns, …"""
    if rule.claims.compute_ops is not None:
        return _text("claimed_ops").replace("TRUE /* compute_ops */", f"({rule.claims.compute_ops}\n)")
    if rule.claims.causes:
        return _text("claimed_rows").replace("TRUE /* where */", f"({rule.claims.where or 'TRUE'}\n)")
    return None


def claim_values(rule: Rule, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that the SELECT of claimed rows needs."""
    return {**values, "causes": list(rule.claims.causes)}


def _windows(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    return sandbox.query(con, _text("bound_windows"), {}).dicts()


def _bound_row(
    window: Mapping[str, Any], bound_ns: int | None, removal: Removal, claimed: Mapping[str, Any]
) -> list[Any]:
    window_ns, step_count = window["window_ns"], window["step_count"] or 0
    step_ms = window_ns / 1e6 / step_count if step_count else None
    share = None if bound_ns is None or not window_ns else bound_ns / window_ns
    claimed_ns = claimed.get("claimed_ns", 0)
    worst_ns = claimed.get("worst_ns")
    return [
        *(window[name] for name in ("trace", "rank", "device", "trace_id", "window_ns", "step_count")),
        step_ms,
        window["launch_link_share"],
        window["mode"],
        bound_ns,
        share,
        sum(removal.savings.values()),
        claimed_ns,
        claimed_ns / window_ns if window_ns else None,
        claimed.get("claimed_count", 0),
        claimed.get("resolved_share"),
        None if bound_ns is None or not step_count else bound_ns / 1e6 / step_count,
        claimed.get("step_count", 0) / step_count if step_count else None,
        0.0 if worst_ns is None else worst_ns / 1e6,
        claimed.get("worst_step"),
        _noise_share(window["step_spread"], step_count),
        "a step" if step_count else "in the window",
    ]


def _noise_share(step_spread: float | None, step_count: int) -> float:
    return 0.0 if not step_spread else min(_MAX_NOISE_SHARE, 2 * step_spread / step_count**0.5)


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()
