"""Fills the table `bound` for a rule: what its fix saves and the time that it claims, on every device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import xxhash
from msgspec import Struct, field
from msgspec.structs import replace

from traceanalyzer.attribution.replay.scan import OpSavings, Savings, WhatIf
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.schema import rule_tables

if TYPE_CHECKING:
    from traceanalyzer.attribution.replay.bounds import Bounds

Device = tuple[int, int]  # trace_id, device
Delay = tuple[str, int]  # host cause, id of the op whose launch it delayed
InterventionKey = tuple[frozenset[str], frozenset[Delay], bytes, frozenset[int]]

# Twice the standard error of the mean step is noise, but no more than this: a cause seen in most steps is no chance.
_MAX_NOISE_SHARE = 0.05
# Each scenario of a pass takes 48 bytes an event.
_SCANNED_AT_ONCE = 12


class RememberedScan:
    """A replay that remembers every answer: rules and orders of fixes ask the same questions.

    `most_idle_ns` limits what removing waits saves on devices whose idle time is mostly not the GPU's.
    """

    def __init__(self, scan: Bounds, most_idle_ns: Mapping[Device, int] | None = None) -> None:
        self._scan = scan
        self._most_idle_ns = most_idle_ns or {}
        self._causes: dict[Device, frozenset[str]] = {}
        self._known: dict[tuple[Device, InterventionKey], int] = {}

    def saved_ns(self, device: Device, intervention: Intervention) -> int:
        """Return the nanoseconds of the analysis window that are saved, without what a rule works out itself."""
        matters = self._that_matters(device, intervention)
        if not matters.is_scanned:
            return 0
        key = (device, matters.key)
        if key not in self._known:
            self._known[key] = self._scan.bounds(*device, [matters.scenario()])[0]
        saved_ns = self._known[key]
        return saved_ns if matters.savings else min(saved_ns, self._most_idle_ns.get(device, saved_ns))

    def prepare(self, queries: Mapping[Device, Iterable[Intervention]]) -> None:
        """Work out what each of these saves on its device, several in one pass over the events."""
        unknown: dict[Device, dict[InterventionKey, WhatIf]] = {}
        for device, interventions in queries.items():
            for intervention in (self._that_matters(device, intervention) for intervention in interventions):
                if intervention.is_scanned and (device, intervention.key) not in self._known:
                    unknown.setdefault(device, {})[intervention.key] = intervention.scenario()
        most = max(map(len, unknown.values()), default=0)
        for start in range(0, most, _SCANNED_AT_ONCE):
            pieces = {device: [*of_one.items()][start : start + _SCANNED_AT_ONCE] for device, of_one in unknown.items()}
            pieces = {device: piece for device, piece in pieces.items() if piece}
            answers = self._scan.bounds_of_each({at: [what_if for _, what_if in piece] for at, piece in pieces.items()})
            for device, piece in pieces.items():
                for (key, _), saved_ns in zip(piece, answers[device], strict=True):
                    self._known[device, key] = saved_ns

    def _that_matters(self, device: Device, intervention: Intervention) -> Intervention:
        if device not in self._causes:
            self._causes[device] = self._scan.causes(*device)
        causes = intervention.causes & self._causes[device]
        return intervention if causes == intervention.causes else replace(intervention, causes=causes)

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds of a device cannot be trusted."""
        return self._scan.abstains(trace_id, device)


class Intervention(Struct, frozen=True, dict=True):
    """What fixing one or several findings takes away on a device.

    A delay is the host time of one cause between the launch of an op and the launch of the op before it.
    """

    causes: frozenset[str] = frozenset()
    savings: Savings = field(default_factory=dict)  # op id: by how much it is shorter
    launches: frozenset[int] = frozenset()  # ops whose launch is left out
    delays: frozenset[Delay] = frozenset()
    stated_ns: int = 0  # what a rule's select works out itself, beside all that is scanned

    @property
    def is_scanned(self) -> bool:
        """Whether the replay has anything to measure."""
        return bool(self.causes or self.savings or self.launches or self.delays)

    @cached_property
    def key(self) -> InterventionKey:
        """What distinguishes this intervention from others, to look up what it saves."""
        return self.causes, self.delays, self._savings_digest(), self.launches

    def _savings_digest(self) -> bytes:
        """Return what stands for the savings: the key is kept with each answer, and they may be of every operation."""
        if not self.savings:
            return b""
        savings = OpSavings.of(self.savings)
        return xxhash.xxh3_128_digest(np.stack([savings.op_id, savings.saving_ns]).tobytes())

    def scenario(self) -> WhatIf:
        """Return the question that the replay is asked."""
        return WhatIf(self.causes, self.savings or None, self.launches, self.delays)

    def joined(self, other: Intervention) -> Intervention:
        """Return both interventions at once; an operation that both shorten is shortened by the larger saving."""
        return Intervention(
            self.causes | other.causes,
            OpSavings.of(self.savings).joined(OpSavings.of(other.savings)),
            self.launches | other.launches,
            self.delays | other.delays,
            self.stated_ns + other.stated_ns,
        )

    def without(self, other: Intervention | None) -> Intervention:
        """Return this intervention without what another one takes away; what a rule's select works out stays."""
        if other is None:
            return self
        return replace(
            self,
            causes=self.causes - other.causes,
            savings=OpSavings.of(self.savings).without(OpSavings.of(other.savings)),
            launches=self.launches - other.launches,
            delays=frozenset(delay for delay in self.delays - other.delays if delay[0] not in other.causes),
        )

    def bound_ns(self, scan: RememberedScan, device: Device) -> int:
        """Return what this saves alone."""
        return scan.saved_ns(device, self) + self.stated_ns

    def added_to(self, fixed: Intervention | None) -> list[Intervention]:
        """Return what `added_ns` asks."""
        return [self] if fixed is None else [fixed.joined(self), fixed]

    def added_ns(self, scan: RememberedScan, device: Device, fixed: Intervention | None) -> int:
        """Return what this saves in addition to what is fixed already."""
        if fixed is None:
            return self.bound_ns(scan, device)
        return max(0, fixed.joined(self).bound_ns(scan, device) - fixed.bound_ns(scan, device))


# By rule id and the ids of rules beside it.
Claimed = dict[tuple[str, tuple[str, ...]], Mapping[Device, Mapping[str, Any]]]


class DeviceBound(Struct, frozen=True):
    """What fixing a rule takes away on a device, and what that saves; None where bounds cannot be trusted."""

    window: Mapping[str, Any]
    intervention: Intervention
    bound_ns: int | None
    after_fixes: bool = False  # the bound is what this adds to other fixes
    run_ns: int | None = None  # of a rule about the run: what all devices save together if each is fixed
    longest_ns: int | None = None  # of a rule about the run: the longest window of its devices, which the run takes

    @property
    def noise_share(self) -> float:
        """The share of the window below which a bound may be the spread of the steps."""
        # With the steps of other recordings that are pooled with the window's.
        step_count = int(self.window.get("steps_in_all") or self.window["step_count"] or 0)
        step_spread = self.window["step_spread"]
        return 0.0 if not step_spread else min(_MAX_NOISE_SHARE, 2 * step_spread / step_count**0.5)

    def row(self, claimed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the device's row of the table `bound`, by the names of its columns."""
        window, bound_ns = self.window, self.bound_ns
        window_ns, step_count = window["window_ns"], window["step_count"] or 0
        whole_ns = self.longest_ns or window_ns
        claimed_ns = claimed.get("claimed_ns", 0)
        worst_ns = claimed.get("worst_ns")
        return {
            **{name: window[name] for name in ("trace", "rank", "device", "trace_id", "window_ns", "step_count")},
            "step_ms": window_ns / 1e6 / step_count if step_count else None,
            "launch_link_share": window["launch_link_share"],
            "mode": window["mode"],
            "bound_ns": bound_ns,
            "bound_share": None if bound_ns is None or not whole_ns else bound_ns / whole_ns,
            "run_ns": self.run_ns,
            "run_share": None if self.run_ns is None or not whole_ns else self.run_ns / whole_ns,
            "saving_sum_ns": int(OpSavings.of(self.intervention.savings).saving_ns.sum()),
            "claimed_ns": claimed_ns,
            "claimed_share": claimed_ns / window_ns if window_ns else None,
            "claimed_count": claimed.get("claimed_count", 0),
            "resolved_share": claimed.get("resolved_share"),
            "ms_per_step": None if bound_ns is None or not step_count else bound_ns / 1e6 / step_count,
            "step_share": claimed.get("step_count", 0) / step_count if step_count else None,
            "worst_ms": 0.0 if worst_ns is None else worst_ns / 1e6,
            "worst_step": claimed.get("worst_step"),
            "noise_share": self.noise_share,
            "after_fixes": self.after_fixes,
            "per": "a step" if step_count else "in the window",
        }


def device_bounds(
    interventions: Mapping[Device, Intervention],
    scan: RememberedScan,
    windows: Mapping[Device, Mapping[str, Any]],
    fixed: Mapping[Device, Intervention],
    added: Mapping[Device, int] | None = None,
) -> dict[Device, DeviceBound]:
    """Return what a rule's fix saves on each device; where something is `fixed` already, what it adds to that.

    That is `added` where it is known.
    """
    if added is None:
        scan.prepare(
            {
                device: interventions[device].added_to(fixed.get(device))
                for device in windows
                if not scan.abstains(*device)
            }
        )
    bounds = {}
    for device, window in windows.items():
        intervention = interventions[device]
        if added is not None:
            bound_ns: int | None = added.get(device, 0)
        else:
            bound_ns = None if scan.abstains(*device) else intervention.added_ns(scan, device, fixed.get(device))
        bounds[device] = DeviceBound(window, intervention, bound_ns, bool(fixed))
    return bounds


def write_bound(con: duckdb.DuckDBPyConnection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Make these the rows of the table `bound`."""
    con.execute("DELETE FROM bound")
    columns = [column.name for column in rule_tables()["bound"].columns]
    if rows:
        # One statement for all: one for each row takes milliseconds a rank.
        values_of = ", ".join(f"unnest(${name})" for name in columns)
        by_column = {name: [row.get(name) for row in rows] for name in columns}
        con.execute(f"INSERT INTO bound ({', '.join(columns)}) SELECT {values_of}", by_column)


def find_interventions(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any], devices: Iterable[Device]
) -> dict[Device, Intervention]:
    """Return what the rule's fix takes away on each device."""
    causes = frozenset(rule.removes)
    if rule.removes_claimed:
        return {device: Intervention(delays=of_one) for device, of_one in _delays(con, rule, values, devices).items()}
    if rule.op_saving is None:
        return {device: Intervention(causes) for device in devices}
    sql = read_query("op_savings").replace("SELECT NULL /* op_saving */", rule.op_saving)
    savings: dict[Device, dict[int, int]] = {device: {} for device in devices}
    launches: dict[Device, set[int]] = {device: set() for device in devices}
    for trace_id, device, op_id, saving_ns, is_left_out in sandbox.all_rows(con, sql, values):
        if (trace_id, device) in savings:
            savings[trace_id, device][op_id] = saving_ns
            if is_left_out:
                launches[trace_id, device].add(op_id)
    return {
        device: Intervention(causes, OpSavings.of(savings[device]), frozenset(launches[device])) for device in savings
    }


def no_interventions(rule: Rule, devices: Iterable[Device]) -> dict[Device, Intervention]:
    """Return what the rule's fix takes away where its `op_saving` and its claims have no row."""
    return dict.fromkeys(devices, Intervention(frozenset() if rule.removes_claimed else frozenset(rule.removes)))


def _delays(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any], devices: Iterable[Device]
) -> dict[Device, frozenset[Delay]]:
    """Return the host time that led to the claimed rows of each device."""
    sql = claimed_sql(rule)
    assert sql is not None
    found: dict[Device, set[Delay]] = {device: set() for device in devices}
    known = claim_values(rule, values)
    # Most rules claim nothing, which is soon known; what led to their rows is then none of the host's time.
    is_claimed = sandbox.query(con, f"SELECT TRUE FROM ({sql}\n) LIMIT 1", known).rows
    query = read_query("claimed_delays").replace("SELECT NULL /* claimed */", sql)
    for row in sandbox.query(con, query, known).dicts() if is_claimed else ():
        if (row["trace_id"], row["device"]) in found:
            found[row["trace_id"], row["device"]].add((row["cause"], row["op_id"]))
    return {device: frozenset(delays) for device, delays in found.items()}


def claimed_of(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any], beside: tuple[str, ...], known: Claimed
) -> Mapping[Device, Mapping[str, Any]]:
    """Return what a rule claims on each device, asked once; what rules `beside` it claim (by id) is not its own.

    Of these, `planning.share_out` has to have written the claims.
    """
    if (rule.id, beside) not in known:
        known[rule.id, beside] = _claimed(con, rule, values, beside)
    return known[rule.id, beside]


def _claimed(
    con: duckdb.DuckDBPyConnection, rule: Rule, values: Mapping[str, Any], beside: Sequence[str]
) -> dict[Device, dict[str, Any]]:
    sql = claimed_sql(rule)
    if sql is None:
        return {}
    known = claim_values(rule, values)
    if beside:
        sql = read_query("claimed_beside").replace("SELECT NULL /* claimed */", sql)
        known["beside"] = list(beside)
    of_devices = read_query("claimed_time").replace("SELECT NULL /* claimed */", sql)
    return {(row["trace_id"], row["device"]): row for row in sandbox.query(con, of_devices, known).dicts()}


def claimed_sql(rule: Rule) -> str | None:
    """Return a SELECT of the ledger rows or kernels that a rule claims: trace_id, device, item_id, step, dur_ns, …"""
    if rule.claims.compute_ops is not None:
        return read_query("claimed_ops").replace("TRUE /* compute_ops */", f"({rule.claims.compute_ops}\n)")
    if rule.claims.causes:
        rows = "claimed_rows" if rule.claims.charged_to is None else "blamed_rows"
        return read_query(rows).replace("TRUE /* where */", f"({rule.claims.where or 'TRUE'}\n)")
    return None


def claim_values(rule: Rule, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that the SELECT of claimed rows needs."""
    return {**values, "causes": list(rule.claims.causes)}
