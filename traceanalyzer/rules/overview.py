"""Tells what a run is, beside the findings: its traces, the ledger of each device, its defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.diagnosis import DeviceLedger, RunLedger, TraceDefect, TraceSummary


def traces(con: duckdb.DuckDBPyConnection) -> tuple[TraceSummary, ...]:
    """Return what each trace of the run is, in the run's order."""
    return tuple(TraceSummary(*row) for row in con.execute(_text("trace_summaries")).fetchall())


def ledgers(con: duckdb.DuckDBPyConnection) -> tuple[DeviceLedger, ...]:
    """Return the analysis window of each device, cut into buckets that add up to it."""
    found = []
    for row in con.sql(_text("device_ledgers")).to_arrow_table().to_pylist():
        buckets = tuple(zip(row.pop("names"), row.pop("durations"), strict=True))
        found.append(DeviceLedger(**row, buckets=buckets))
    return tuple(found)


def run_ledger(con: duckdb.DuckDBPyConnection, devices: Sequence[DeviceLedger]) -> RunLedger | None:
    """Return where the run's time went, if its ranks wait for each other and can be followed."""
    rows = con.execute(_text("run_path")).fetchall()
    if not rows or not devices:
        return None
    buckets: Counter[str] = Counter()
    ranks: Counter[int | None] = Counter()
    for rank, bucket, dur_ns in rows:
        buckets[bucket] += dur_ns
        ranks[rank] += dur_ns
    slowest = max(devices, key=lambda device: device.window_ns)
    return RunLedger(slowest.window_ns, slowest.step_count, tuple(buckets.most_common()), tuple(ranks.most_common()))


def defects(con: duckdb.DuckDBPyConnection) -> tuple[TraceDefect, ...]:
    """Return the kinds of defects found in each trace, losses first."""
    return tuple(TraceDefect(*row) for row in con.execute(_text("trace_defects")).fetchall())


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()
