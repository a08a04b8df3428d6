"""Checks that equivalent tables give the same answer, and that missing records never turn a finding into `clear`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from self_check import changed_tables
from self_check.changed_tables import Change, Intervention, Tables
from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_file.model import Rule
from tracesim import in_memory

# Fractions of the same integers, added up in another order.
SAME_SHARE = 1e-9
MOST_TOLD = 5

SAME_RUN: Mapping[str, Change] = {
    "other clocks change nothing": changed_tables.on_other_clocks,
    "another order of traces changes nothing": changed_tables.with_traces_reversed,
    "other names of streams change nothing": changed_tables.with_streams_renamed,
    "other names of threads change nothing": changed_tables.with_threads_renamed,
}
LESS_RECORDED: Mapping[str, Intervention] = {
    "input shapes": changed_tables.without_shapes,
    "Python stacks": changed_tables.without_stacks,
    "synchronisation records": changed_tables.without_sync_records,
    "allocator events": changed_tables.without_memory,
    "operators": changed_tables.without_operators,
    "launches": changed_tables.without_launches,
    "one of the ranks": changed_tables.without_a_rank,
}

_SHARES = """
SELECT 'ledger', trace, device, bucket, sum(dur_ns) / any_value(window_ns)
FROM attribution.ledger_rows
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
WHERE kept
  AND window_ns > 0
GROUP BY ALL
UNION ALL
SELECT 'bound', trace, device, cause, bound_share
FROM host_cause_bounds
"""

Share = tuple[str, str, int, str]  # ledger or bound, trace, device, bucket or cause
Verdict = tuple[str, str | None, int | None]  # rule, trace, device


@dataclass(frozen=True)
class RunSummary:
    """The results that equivalent tables must share: shares of the windows, and verdicts."""

    shares: Mapping[Share, float | None]
    states: Mapping[Verdict, str]
    reasons: Mapping[Verdict, str | None]


def connection(tables: Tables, rules: Iterable[Rule], options: AttributionOptions) -> duckdb.DuckDBPyConnection:
    """Return a connection of the engine over changed tables, for rules and for `shares`."""
    return in_memory.connect_tables(tables, options, [_SHARES, *readers(rules)])


def shares(con: duckdb.DuckDBPyConnection) -> dict[Share, float | None]:
    """Return each bucket's share of its window, and each cause's bound."""
    return {(kind, trace, device, name): share for kind, trace, device, name, share in con.execute(_SHARES).fetchall()}


def summary(con: duckdb.DuckDBPyConnection, diagnosis: Diagnosis) -> RunSummary:
    """Return what a run's answer comes down to."""
    device_keys = [((o.rule, o.trace, o.device), o) for o in diagnosis.outcomes]
    return RunSummary(
        shares(con),
        {device_key: outcome.state for device_key, outcome in device_keys},
        {device_key: outcome.reason for device_key, outcome in device_keys},
    )


def differences(one: RunSummary, other: RunSummary) -> tuple[str, ...]:
    """Return where two answers differ; the first few of them."""
    broken = []
    for key in sorted(one.shares.keys() | other.shares.keys()):
        left, right = one.shares.get(key), other.shares.get(key)
        if left != right and (left is None or right is None or abs(left - right) > SAME_SHARE):
            kind, trace, device, name = key
            broken.append(f"{trace} device {device}: {kind} of {name} {_percent(left)}, then {_percent(right)}")
    for device_key in one.states.keys() | other.states.keys():
        if one.states.get(device_key) != other.states.get(device_key):
            broken.append(
                f"{device_key[0]} on {device_key[1]}: {one.states.get(device_key)}, then {other.states.get(device_key)}"
            )
    return _first(broken)


def turned_clear(full: RunSummary, thin: RunSummary, rules: frozenset[str]) -> tuple[str, ...]:
    """Return the verdicts of rules that fired and are clear once less is recorded: not seen is no all-clear."""
    return _first(
        [
            f"{rule} on {trace}"
            for (rule, trace, device), state in full.states.items()
            if rule in rules and state == "fired" and thin.states.get((rule, trace, device)) == "clear"
        ]
    )


def _first(broken: list[str]) -> tuple[str, ...]:
    more = len(broken) - MOST_TOLD
    return (*broken[:MOST_TOLD], *([f"and {more} more"] if more > 0 else []))


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.4f} %"
