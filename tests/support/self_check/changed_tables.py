"""The tables of a run with equivalent changes, or with less recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute

from traceanalyzer.schema import trace_tables

Tables = Mapping[str, pa.Table]
pc = cast(Any, pyarrow.compute)  # its stubs do not know tables' columns

# Times that are lengths; all other columns in nanoseconds are instants.
_LENGTHS = frozenset({"dur_ns"})
_REMOVED = "removed"
CLOCK_SHIFT_NS = 86_400_000_000_123
# Clocks of one job disagree by less than a second; traces that are further apart are of different jobs.
CLOCKS_APART_NS = 177_777_123
CLOCKS = 5


def read_tables(con: duckdb.DuckDBPyConnection) -> Tables:
    """Return the canonical tables of a connection's traces, in memory."""
    return {name: con.sql(f"FROM canonical.{name}").to_arrow_table() for name in trace_tables()}


def row_count(con: duckdb.DuckDBPyConnection) -> int:
    """Return how many rows the canonical tables of traces hold together."""
    counts = [con.execute(f"SELECT count(*) FROM canonical.{name}").fetchall() for name in trace_tables()]
    return sum(int(found[0][0]) for found in counts)


def by_all(tables: Tables, changes: Iterable[Change]) -> Tables:
    """Return the run after one change after the other."""
    for change in changes:
        tables = change(tables)
    return tables


def on_other_clocks(tables: Tables) -> Tables:
    """Return the run with each trace's clock a different time ahead."""
    shifts = pa.array([CLOCK_SHIFT_NS + i % CLOCKS * CLOCKS_APART_NS for i in range(tables["traces"].num_rows)])
    changed = {}
    for name, table in tables.items():
        for column in table.column_names:
            if column.endswith("_ns") and column not in _LENGTHS:
                ahead = pc.take(shifts, pc.cast(table["trace_id"], pa.int64()))
                table = _with(table, column, pc.add(table[column], ahead))
        changed[name] = table
    return changed


def with_traces_reversed(tables: Tables) -> Tables:
    """Return the run with its traces numbered from the other end."""
    last = max(0, tables["traces"].num_rows - 1)
    return {
        name: _with(table, "trace_id", pc.subtract(pa.scalar(last, pa.int32()), table["trace_id"]))
        for name, table in tables.items()
    }


def with_streams_renamed(tables: Tables) -> Tables:
    """Return the run with other numbers for its streams, in another order."""
    columns = {"gpu_ops": ["stream"], "syncs": ["stream", "wait_on_stream"]}
    return _renumbered(tables, columns)


def with_threads_renamed(tables: Tables) -> Tables:
    """Return the run with other numbers for its threads, in another order."""
    columns = {name: ["thread_id"] for name, table in tables.items() if "thread_id" in table.column_names}
    return _renumbered(tables, columns)


def scaled(tables: Tables, factor: int) -> Tables:
    """Return the run with every time that many times as long, each clock beginning at its trace's first event."""
    first = {row["trace_id"]: row["first_ns"] or 0 for row in tables["traces"].to_pylist()}
    origins = np.asarray([first.get(i, 0) for i in range(max(first, default=0) + 1)], np.int64)
    changed = {}
    for name, table in tables.items():
        origin = pa.array(origins[np.asarray(table["trace_id"].to_pylist(), np.int64)], pa.int64())
        for column in table.column_names:
            if column.endswith("_ns"):
                values = table[column] if column in _LENGTHS else pc.subtract(table[column], origin)
                table = _with(table, column, pc.multiply(values, factor))
        changed[name] = table
    return changed


def without_shapes(tables: Tables) -> Tables | None:
    """Return the run as recorded without input shapes; None: it was."""
    return _unflagged(tables, "has_shapes", {})


def without_sync_records(tables: Tables) -> Tables | None:
    """Return the run as recorded without stream and event synchronisation; None: it was."""
    return _unflagged(tables, "has_sync_events", {"syncs": tables["syncs"].slice(0, 0)})


def without_memory(tables: Tables) -> Tables | None:
    """Return the run as recorded without the allocator's events; None: it was."""
    return _unflagged(tables, "has_memory", {"memory_events": tables["memory_events"].slice(0, 0)})


def without_stacks(tables: Tables) -> Tables | None:
    """Return the run as recorded without Python frames; None: it was."""
    slices = tables["host_slices"]
    python = pc.equal(slices["category"], "python")
    if not pc.any(python).as_py():
        return None
    ops = _with(tables["gpu_ops"], "python_id", pa.nulls(tables["gpu_ops"].num_rows, pa.int64()))
    blank = _with(_blank(slices, python), "python_id", pa.nulls(slices.num_rows, pa.int64()))
    return _unflagged(tables, "has_stacks", {"host_slices": blank, "gpu_ops": ops}, always=True)


def without_operators(tables: Tables) -> Tables | None:
    """Return the run as recorded without operators; None: it was."""
    slices = tables["host_slices"]
    operators = pc.equal(slices["category"], "cpu_op")
    if not pc.any(operators).as_py():
        return None
    ops = _with(tables["gpu_ops"], "cpu_op_id", pa.nulls(tables["gpu_ops"].num_rows, pa.int64()))
    blank = _with(_blank(slices, operators), "op_id", pa.nulls(slices.num_rows, pa.int64()))
    return {**tables, "host_slices": blank, "gpu_ops": ops}


def without_launches(tables: Tables) -> Tables | None:
    """Return the run as recorded without what ties GPU work to the host; None: it was."""
    ops = tables["gpu_ops"]
    if ops["launch_id"].null_count == ops.num_rows:
        return None
    for column in ("launch_id", "cpu_op_id", "annotation_id", "python_id", "correlation", "external_id"):
        ops = _with(ops, column, pa.nulls(ops.num_rows, pa.int64()))
    return {**tables, "gpu_ops": ops}


def without_a_rank(tables: Tables) -> Tables | None:
    """Return the run without its last trace; None: it has one only."""
    traces = tables["traces"].num_rows
    if traces < 2:
        return None
    return {name: table.filter(pc.less(table["trace_id"], traces - 1)) for name, table in tables.items()}


def _unflagged(tables: Tables, flag: str, changed: Tables, *, always: bool = False) -> Tables | None:
    traces = tables["traces"]
    if not always and not any(traces[flag].to_pylist()):
        return None
    return {**tables, **changed, "traces": _with(traces, flag, pa.array([False] * traces.num_rows))}


def _blank(slices: pa.Table, which: Any) -> pa.Table:
    """Return slices with some of them saying nothing: taking them out would cut the nesting."""
    slices = _with(slices, "category", pc.if_else(which, "other", slices["category"]))
    return _with(slices, "name", pc.if_else(which, _REMOVED, slices["name"]))


def _renumbered(tables: Tables, columns: Mapping[str, list[str]]) -> Tables:
    found = [pc.max(tables[name][column]).as_py() for name, listed in columns.items() for column in listed]
    top = max((number for number in found if number is not None), default=0)
    changed = dict(tables)
    for name, listed in columns.items():
        for column in listed:
            kind = changed[name].schema.field(column).type
            # Twice as far apart, and counted from the other end.
            numbers = pc.multiply(pc.subtract(pa.scalar(top + 1, kind), changed[name][column]), pa.scalar(2, kind))
            changed[name] = _with(changed[name], column, numbers)
    return changed


def _with(table: pa.Table, column: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), cast(Any, values))


Change = Callable[[Tables], Tables]
Intervention = Callable[[Tables], Tables | None]
