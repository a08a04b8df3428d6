"""What ROCTX draws that is no range of a thread: marks, and ranges that begin on one thread and end on another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.recording import integers, taken
from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.nsys.masks import Column

MARK, ACROSS_THREADS = "roctxMarkA", "roctxProcessRangeA"


def mark_rows(rows: pa.RecordBatch, names: Column, kinds: Column) -> pa.Table:
    """Return rows of the table `instants` from rows in the schema CALLS; their threads are as recorded."""
    return pa.table(
        {
            "event_id": rows.column("slice_id"),
            "thread": rows.column("thread"),
            "category": taken(kinds, integers(rows.column("kind"))),
            "name": _shown(rows, names),
            "scope": pa.array(["t"] * rows.num_rows),
            "start_ns": rows.column("start_ns"),
        }
    )


def crossing_rows(rows: pa.RecordBatch, names: Column, kinds: Column, pid: int | None) -> pa.Table:
    """Return rows of the table `async_slices` from rows in the schema CALLS."""
    return pa.table(
        {
            "event_id": rows.column("slice_id"),
            "pid": pa.array([None if pid is None else str(pid)] * rows.num_rows, pa.string()),
            "tid": rows.column("thread").cast(pa.string()),
            "category": pa.array(["async"] * rows.num_rows),
            "raw_category": taken(kinds, integers(rows.column("kind"))),
            "name": _shown(rows, names),
            "start_ns": rows.column("start_ns"),
            "dur_ns": rows.column("dur_ns"),
        }
    )


def _shown(rows: pa.RecordBatch, names: Column) -> Column:
    by_code = taken(names, np.maximum(integers(rows.column("name_code")), NONE))
    shown: Column = pc.call_function("coalesce", [rows.column("text"), by_code])
    return shown
