"""Calls and ranges: sorted, nested batch by batch, written; the calls that GPU work refers to.

What ROCTX draws that is no range of a thread: marks, and ranges that begin on one thread and end on another.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.recording import CALLS, ProcessRecording, coded_column, flags, integers, taken
from traceanalyzer.ingest.nesting import (
    NONE,
    Int,
    Nester,
    Once,
    Slices,
    ancestor_codes,
    in_order,
    name_hashes,
)
from traceanalyzer.ingest.nsys.host_slices import Calls, Launches
from traceanalyzer.ingest.nsys.masks import Column, count, known
from traceanalyzer.ingest.nsys.torch_ranges import as_operators, coded, take_apart
from traceanalyzer.ingest.sink import TraceSink

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


_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
_OPERATOR, _ANNOTATION = "cpu_op", "annotation"
# Operators as PyTorch's profiler names them; classes of programs, whose methods look alike, have capitals.
_PLAIN_OPERATOR = r"^(aten|c10d|torch|prims?|[a-z_][a-z0-9_]*)::[a-z_]\w*$"
_CALLS_OF = ("runtime", "driver", "other")


class ProcessSlices:
    """Writes the host slices of one process, notes its calls, and numbers its threads."""

    def __init__(self, sink: TraceSink, recording: ProcessRecording, launches: Launches) -> None:
        self._sink = sink
        self._recording = recording
        self._launches = launches
        self._threads: dict[int, int] = {}
        self._nester = Nester()
        self.has_shapes = False

    def write(self) -> None:
        """Write all slices."""
        rows = (_placed(self.timed(batch)) for batch in self._recording.calls())
        slices = in_order((batch for batch in rows if batch.num_rows), self._sink.folder)
        names, kinds = self._recording.names(), self._recording.kinds()
        # Calls of an RPD file have the numbers of their rows.
        is_numbered = self._recording.identity.format == "rpd"
        once = Once(("kind", "name_code", "text", *(() if is_numbered else ("correlation",))))
        for batch in once.each(slices):
            self._write_batch(self._named(batch, names, kinds))
        self._recording.defects.add("repeated-record", once.left_out, "slices of the host")

    def timed(self, rows: _Rows) -> _Rows:
        """Leave out events whose start is unknown, and count them."""
        if "start_ns" not in rows.schema.names:
            return rows
        has_start = integers(cast(Any, rows).column("start_ns")) > 0
        self._recording.defects.add("no-times", int((~has_start).sum()), "an event that starts at 0")
        return rows if has_start.all() else rows.filter(pa.array(has_start))

    def _named(self, batch: pa.RecordBatch, names: Column, kinds: object) -> dict[str, Column]:
        """Return slices with their names and categories, in place of codes."""
        listed = list(cast("list[tuple[str, str]]", kinds))
        code = integers(batch.column("kind"))
        categories = list(dict.fromkeys([*(category for category, _ in listed), _OPERATOR, _ANNOTATION]))
        positions = np.array([categories.index(category) for category, _ in listed] or [0], np.int64)
        category = coded_column(positions[code], pa.array(categories, pa.string()))
        raw = pa.array([raw or None for _, raw in listed], pa.string())
        texts = batch.column("text")
        by_code = taken(names, np.maximum(integers(batch.column("name_code")), NONE))
        name = cast("Column", pc.call_function("coalesce", [texts, by_code]))
        columns: dict[str, Column] = {
            key: batch.column(key) for key in ("slice_id", "thread", "start_ns", "dur_ns", "correlation")
        }
        columns |= {"name": name, "category": category, "raw_category": taken(raw, code)}
        if texts.null_count == len(texts):
            return columns
        torch = take_apart(texts)
        if torch is not None:
            columns |= as_operators(torch, category, name)
        columns["category"] = _with_plain_operators(columns["category"], columns["name"])
        return columns

    def _write_batch(self, columns: dict[str, Column]) -> None:
        slice_id, thread, start, dur = (
            integers(columns[name]) for name in ("slice_id", "thread", "start_ns", "dur_ns")
        )
        codes = ancestor_codes(*coded(columns["category"]))
        nested = self._nester.feed(Slices(slice_id, thread, start, dur, codes, name_hashes(columns["name"])))
        self._note_calls(columns, slice_id, start, nested.nearest)
        rows = {name: column for name, column in columns.items() if name not in ("thread", "args")}
        rows["category"] = cast(Any, columns["category"]).dictionary_decode()
        rows["thread_id"] = pa.array(self._numbers(thread))
        self._sink.append("host_slices", pa.table(rows | nested.columns()))
        self._write_args(columns)

    def _write_args(self, columns: dict[str, Column]) -> None:
        args = columns.get("args")
        if args is not None and count(known(args)):
            self.has_shapes = True
            has_args = known(args)
            rows = {"event_id": columns["slice_id"].filter(has_args), "args": args.filter(has_args)}
            self._sink.append("event_args", pa.table(rows))

    def _note_calls(self, columns: dict[str, Column], slice_id: Int, start: Int, nearest: tuple[Int, ...]) -> None:
        names, codes = coded(columns["category"])
        is_call = np.array([name in _CALLS_OF for name in names], np.bool_)[codes]
        correlation = integers(columns["correlation"])
        rows = np.flatnonzero(is_call & (correlation > 0))
        if len(rows):
            operator, annotation, *_ = (ids[rows] for ids in nearest)
            wanted = correlation[rows]
            narrow = wanted.astype(np.uint32 if int(wanted.max()) < 2**32 else np.int64)
            found = Calls(narrow, start[rows], (slice_id[rows], operator, annotation))
            self._launches.add(0, found)

    def _numbers(self, thread: Int) -> Int:
        distinct, inverse = np.unique(thread, return_inverse=True)
        numbers = [self._threads.setdefault(one, len(self._threads)) for one in distinct.tolist()]
        return np.array(numbers, np.int64)[inverse]

    def with_threads(self, rows: pa.Table) -> pa.Table:
        """Return rows with the numbers of their threads, where they name threads."""
        if "thread" not in rows.column_names:
            return rows
        numbers = self._numbers(integers(rows.column("thread").combine_chunks().cast(pa.int64()).fill_null(NONE)))
        return rows.drop_columns(["thread"]).append_column("thread_id", pa.array(numbers, pa.int32()))

    def write_threads(self) -> None:
        """Write the threads that were numbered."""
        names = self._recording.thread_names()
        pid = self._recording.identity.pid
        rows = [
            {
                "thread_id": number,
                "pid": None if pid is None else str(pid),
                "tid": None if thread < 0 else str(thread),
                "process_name": None,
                "thread_name": names.get(thread),
            }
            for thread, number in self._threads.items()
        ]
        self._sink.append("threads", pa.Table.from_pylist(rows, self._sink.schema("threads")))


def _placed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return calls with those of no known thread on thread -1."""
    thread = rows.column("thread")
    if not thread.null_count:
        return rows
    return rows.set_column(CALLS.get_field_index("thread"), "thread", thread.fill_null(-1))


def _with_plain_operators(category: Column, name: Column) -> Column:
    """Return categories in which ranges that are called like operators of PyTorch are operators."""
    names, codes = coded(category)
    is_named = pc.call_function("match_substring_regex", [name], pc.MatchSubstringOptions(_PLAIN_OPERATOR))
    changed = flags(is_named) & (codes == names.index(_ANNOTATION))
    placed = np.where(changed, names.index(_OPERATOR), codes).astype(np.int64)
    return cast("Column", coded_column(placed, pa.array(names, pa.string())))
