"""A small run is copied into the memory of a connection: planning over its files takes longer than its rows do."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from traceanalyzer.query.canonical import insert_traces, numbered_rows, parts, those
from traceanalyzer.schema import derived_tables, trace_tables
from traceanalyzer.store.inputs import StoredTrace
from traceanalyzer.text.quoting import literal

MOST_TRACES = 8
# As Parquet, a fifteenth of the JSON. A trace of 10 MB of JSON (0.7 MB) gains, two of 35 and 56 MB gained nothing.
MOST_BYTES = 1_000_000
# What these win over some thousand rows is less than what they cost for every query. The order of joins, which can
# make a query quadratic, is always looked for.
_LEFT_OUT = (
    "build_side_probe_side",
    "common_subexpressions",
    "common_subplan",
    "duplicate_groups",
    "join_elimination",
    "join_filter_pushdown",
    "outer_join_simplification",
    "projection_pullup",
    "redundant_order_keys",
    "statistics_propagation",
    "type_pushdown",
)


def is_small(traces: Sequence[StoredTrace], derived: Path) -> bool:
    """Tell whether a run's tables are worth copying into memory."""
    if len(traces) > MOST_TRACES:
        return False
    folders = (derived, *(stored.folder for stored in traces))
    return sum(file.stat().st_size for folder in folders for file in folder.glob("*.parquet")) <= MOST_BYTES


def copy_run(
    connection: duckdb.DuckDBPyConnection,
    traces: Sequence[StoredTrace],
    derived: Path,
    needed: Set[str],
) -> None:
    """Copy the needed tables of a run into those of an empty connection (`connect_empty`), and plan with less care."""
    connection.execute(f"SET disabled_optimizers = '{','.join(_LEFT_OUT)}'")
    numbered = dict(enumerate(traces))
    insert_traces(connection, numbered)
    for name in those(trace_tables(), needed - {"traces"}):
        files = [part for stored in traces for part in parts(stored.folder, name) if _has_rows(part)]
        if files:
            rows = numbered_rows(trace_tables()[name], numbered, files)
            connection.execute(f"INSERT INTO canonical.{name} BY NAME {rows}")
    for name in those(derived_tables(), needed):
        file = derived / f"{name}.parquet"
        if _has_rows(file):
            connection.execute(f"INSERT INTO attribution.{name} BY NAME FROM read_parquet({literal(file)})")


def _has_rows(file: Path) -> bool:
    return bool(pq.read_metadata(file).num_rows)
