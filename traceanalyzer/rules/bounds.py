"""Fills the table `bound` for a rule: its lead-scan bound and the time its claims select, on every device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from traceanalyzer.rules import sandbox
from traceanalyzer.rules.model import Rule

if TYPE_CHECKING:
    from traceanalyzer.attribution import Bounds

Device = tuple[int, int]  # trace_id, device

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


class RunScan(Protocol):
    """What the lead scan over all ranks offers: see together.Together."""

    @property
    def abstains(self) -> str | None:
        """Return why the ranks cannot be scanned together."""

    def saved_ns(self, removals: Mapping[Device, Removal]) -> int:
        """Return the nanoseconds of the slowest rank's window that are saved."""


class RememberedScan:
    """A lead scan that works each question out once: rules, orders of fixes and mixtures ask the same ones."""

    def __init__(self, scan: Bounds) -> None:
        self._scan = scan
        self._causes: dict[Device, frozenset[str]] = {}
        self._known: dict[tuple[Device, frozenset[str], frozenset[tuple[int, int]]], int] = {}

    def bound(
        self, trace_id: int, device: int, removed: frozenset[str], savings: Mapping[int, int] | None = None
    ) -> int:
        """Return the nanoseconds of the analysis window that are saved."""
        place = (trace_id, device)
        if place not in self._causes:
            self._causes[place] = self._scan.causes(trace_id, device)
        matters = removed & self._causes[place]
        if not matters and not savings:
            return 0
        key = (place, matters, frozenset((savings or {}).items()))
        if key not in self._known:
            self._known[key] = self._scan.bound(trace_id, device, matters, savings)
        return self._known[key]

    def prepare(self, place: Device, removed: Iterable[frozenset[str]]) -> None:
        """Work out what removing each of these saves, in one pass over the events for all of them."""
        from traceanalyzer.attribution import Scenario

        if place not in self._causes:
            self._causes[place] = self._scan.causes(*place)
        matter = {causes & self._causes[place] for causes in removed} - {frozenset()}
        unknown = [causes for causes in matter if (place, causes, frozenset()) not in self._known]
        bounds = self._scan.bounds(*place, [Scenario(causes) for causes in unknown])
        for causes, bound_ns in zip(unknown, bounds, strict=True):
            self._known[place, causes, frozenset()] = bound_ns

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds of a device cannot be trusted."""
        return self._scan.abstains(trace_id, device)


@dataclass(frozen=True)
class Removal:
    """What fixing one or several findings takes away on a device."""

    causes: frozenset[str] = frozenset()
    savings: Mapping[int, int] = field(default_factory=dict)
    told_ns: int = 0  # what a rule works out itself, beside all that is scanned

    def joined(self, other: Removal) -> Removal:
        """Return both removals at once; an operation that both shorten is shortened by the larger saving."""
        savings = dict(self.savings)
        for op_id, saving_ns in other.savings.items():
            savings[op_id] = max(saving_ns, savings.get(op_id, 0))
        return Removal(self.causes | other.causes, savings, self.told_ns + other.told_ns)

    def bound_ns(self, scan: LeadScan, place: Device) -> int:
        """Return what this saves alone."""
        return scan.bound(place[0], place[1], self.causes, self.savings or None) + self.told_ns

    def added_ns(self, scan: LeadScan, place: Device, fixed: Removal | None) -> int:
        """Return what this saves in addition to what is fixed already."""
        if fixed is None:
            return self.bound_ns(scan, place)
        return max(0, fixed.joined(self).bound_ns(scan, place) - fixed.bound_ns(scan, place))


@dataclass(frozen=True)
class DeviceBound:
    """What fixing a rule takes away on a device, and what that saves; None where bounds cannot be trusted."""

    window: Mapping[str, Any]
    removal: Removal
    bound_ns: int | None
    run_ns: int | None = None  # of a rule about the run: what all devices save together if each is fixed

    @property
    def noise_share(self) -> float:
        """A bound below this share of the window is not told from the spread of the steps."""
        step_spread, step_count = self.window["step_spread"], self.window["step_count"] or 0
        return 0.0 if not step_spread else min(_MAX_NOISE_SHARE, 2 * step_spread / step_count**0.5)

    def row(self, claimed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the device's row of the table `bound`, in the order of its columns."""
        window, bound_ns = self.window, self.bound_ns
        window_ns, step_count = window["window_ns"], window["step_count"] or 0
        claimed_ns = claimed.get("claimed_ns", 0)
        worst_ns = claimed.get("worst_ns")
        return {
            **{name: window[name] for name in ("trace", "rank", "device", "trace_id", "window_ns", "step_count")},
            "step_ms": window_ns / 1e6 / step_count if step_count else None,
            "launch_link_share": window["launch_link_share"],
            "mode": window["mode"],
            "bound_ns": bound_ns,
            "bound_share": None if bound_ns is None or not window_ns else bound_ns / window_ns,
            "run_ns": self.run_ns,
            "run_share": None if self.run_ns is None or not window_ns else self.run_ns / window_ns,
            "saving_sum_ns": sum(self.removal.savings.values()),
            "claimed_ns": claimed_ns,
            "claimed_share": claimed_ns / window_ns if window_ns else None,
            "claimed_count": claimed.get("claimed_count", 0),
            "resolved_share": claimed.get("resolved_share"),
            "ms_per_step": None if bound_ns is None or not step_count else bound_ns / 1e6 / step_count,
            "step_share": claimed.get("step_count", 0) / step_count if step_count else None,
            "worst_ms": 0.0 if worst_ns is None else worst_ns / 1e6,
            "worst_step": claimed.get("worst_step"),
            "noise_share": self.noise_share,
            "per": "a step" if step_count else "in the window",
        }


def device_bounds(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    values: Mapping[str, Any],
    scan: LeadScan,
    windows: Mapping[Device, Mapping[str, Any]],
    fixed: Mapping[Device, Removal],
) -> dict[Device, DeviceBound]:
    """Return what the rule's fix saves on each device; where something is `fixed` already, what it adds to that."""
    savings = _savings(con, rule, values)
    found = {}
    for place, window in windows.items():
        removal = Removal(frozenset(rule.removes), savings.get(place, {}))
        bound_ns = None if scan.abstains(*place) else removal.added_ns(scan, place, fixed.get(place))
        found[place] = DeviceBound(window, removal, bound_ns)
    return found


def run_bounds(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    values: Mapping[str, Any],
    together: RunScan,
    windows: Mapping[Device, Mapping[str, Any]],
) -> dict[Device, DeviceBound]:
    """Return what the run saves if the rule's fix is made on one device alone, and on all of them."""
    savings = _savings(con, rule, values)
    removals = {place: Removal(frozenset(rule.removes), savings.get(place, {})) for place in windows}
    together_ns = None if rule.says_its_bound or together.abstains else together.saved_ns(removals)
    return {
        place: DeviceBound(
            window,
            removals[place],
            None if together_ns is None else together.saved_ns({place: removals[place]}),
            together_ns,
        )
        for place, window in windows.items()
    }


def fill_bound(
    con: duckdb.DuckDBPyConnection,
    rule: Rule,
    values: Mapping[str, Any],
    bounds: Mapping[Device, DeviceBound],
    *,
    with_claims: bool = True,
) -> None:
    """Write the rule's rows of the table `bound`; without claims, what it would own is left at nothing."""
    claimed = _claimed(con, rule, values) if with_claims else {}
    con.execute("DELETE FROM bound")
    rows = [list(bound.row(claimed.get(place, {})).values()) for place, bound in bounds.items()]
    if rows:
        con.executemany(f"INSERT INTO bound VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _savings(con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any]) -> dict[Device, dict[int, int]]:
    if rule.op_saving is None:
        return {}
    rows = sandbox.query(con, _text("op_savings").replace("SELECT NULL /* op_saving */", rule.op_saving), values)
    savings: dict[Device, dict[int, int]] = {}
    for trace_id, device, op_id, saving_ns in rows.rows:
        savings.setdefault((trace_id, device), {})[op_id] = saving_ns
    return savings


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
        rows = "claimed_rows" if rule.claims.charged_to is None else "blamed_rows"
        return _text(rows).replace("TRUE /* where */", f"({rule.claims.where or 'TRUE'}\n)")
    return None


def claim_values(rule: Rule, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that the SELECT of claimed rows needs."""
    return {**values, "causes": list(rule.claims.causes)}


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()
