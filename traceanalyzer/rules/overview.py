"""Tells what a run is, beside the findings: its traces, the ledger of each device, its defects."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.diagnosis import DeviceLedger, TraceDefect, TraceSummary


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


def defects(con: duckdb.DuckDBPyConnection) -> tuple[TraceDefect, ...]:
    """Return the kinds of defects found in each trace, losses first."""
    return tuple(TraceDefect(*row) for row in con.execute(_text("trace_defects")).fetchall())


@cache
def _text(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text()
