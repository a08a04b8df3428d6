"""Host slices: sorted by DuckDB, nested batch by batch, written per process; the calls that GPU work refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, NONE, Nested, Nester, Slices
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import Column, above, count, differs, either, known, negated, one_of
from traceanalyzer.ingest.nsys.stage import sql
from traceanalyzer.ingest.sink import TraceSink

Int = npt.NDArray[np.int64]

PROCESS_MASK = -16777216  # clears the thread in a globalTid
_BATCH_ROWS = 131_072
_BACKTRACE_CLASS = (67,)

LAUNCHES = pa.schema(
    [
        pa.field("scope", pa.int64()),
        pa.field("correlation", pa.int64()),
        pa.field("start_ns", pa.int64()),
        pa.field("launch_id", pa.int64()),
        pa.field("cpu_op_id", pa.int64()),
        pa.field("annotation_id", pa.int64()),
    ]
)
_SYNC_FIELDS: dict[str, pa.DataType] = {
    "scope": pa.int64(),
    "correlation": pa.int64(),
    "sync_kind": pa.string(),
    "start_ns": pa.int64(),
}
SYNC_CALLS = pa.schema(_SYNC_FIELDS)
FAILED_CALLS = pa.schema([("event_id", pa.int64()), ("globalTid", pa.int64()), ("returnValue", pa.int64())])


class CallFilter:
    """Takes out API rows that a backtrace duplicated, and notes calls that returned an error."""

    def __init__(self, defects: Defects) -> None:
        self.failed: list[pa.RecordBatch] = []
        self._defects = defects

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        duplicate = one_of(rows.column("eventClass"), _BACKTRACE_CLASS)
        if count(duplicate):
            self._defects.add("backtrace-duplicate", count(duplicate), "CUPTI_ACTIVITY_KIND_RUNTIME, event class 67")
            rows = rows.filter(negated(duplicate))
        failed = differs(rows.column("returnValue"), 0)
        if count(failed):
            self.failed.append(rows.filter(failed).select(FAILED_CALLS.names))
        return rows


@dataclass
class ThreadNumbers:
    """Numbers threads 0, 1, 2 … in each trace, in the order of their global ids."""

    numbers: dict[int, int]
    counts: dict[int, int]  # threads so far, by trace

    def number(self, threads: Int, owner: int) -> Int:
        """Return the number of each row's thread; rows are sorted by thread."""
        distinct, inverse = np.unique(threads, return_inverse=True)
        for thread in distinct.tolist():
            if thread not in self.numbers:
                self.numbers[thread] = self.counts.get(owner, 0)
                self.counts[owner] = self.numbers[thread] + 1
        return np.array([self.numbers[thread] for thread in distinct.tolist()], np.int64)[inverse]


class HostWriter:
    """Nests sorted slices and writes each process's to its trace."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        sink_of: Callable[[int], tuple[int, TraceSink]],
        threads: ThreadNumbers,
    ) -> None:
        self._writer = connection.cursor()  # the connection itself is busy with the sorted rows
        self._reader = connection
        self._sink_of = sink_of
        self._threads = threads
        self._nester = Nester()
        self.slice_count = 0
        self._call_keys: list[Int] = []

    def write(self) -> None:
        """Write all slices, and fill the tables `launches` and `sync_calls`."""
        for name, schema in (("calls", LAUNCHES), ("sync_calls", SYNC_CALLS)):
            self._insert(name, pa.Table.from_batches([], schema), create=True)
        rows = self._reader.sql(sql("host_slices")).to_arrow_reader(_BATCH_ROWS)
        for batch in rows:
            self._write_batch(batch)
        self._writer.close()

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        thread = _integers(batch, "thread")
        categories = batch.column("category").to_numpy(zero_copy_only=False)
        codes = np.full(len(thread), NONE, np.int64)
        for code, category in enumerate(ANCESTOR_CATEGORIES):
            codes[categories == category] = code
        slice_id = _integers(batch, "slice_id")
        start, dur = _integers(batch, "start_ns"), _integers(batch, "dur_ns")
        nested = self._nester.feed(Slices(slice_id, thread, start, dur, codes))
        scope = thread & PROCESS_MASK
        self._note_calls(batch, scope, nested)
        for first, last in _runs(scope):
            self._write_process(batch.slice(first, last - first), thread[first:last], nested, first, last)
        self.slice_count += len(thread)

    def _write_process(self, batch: pa.RecordBatch, thread: Int, nested: Nested, first: int, last: int) -> None:
        owner, sink = self._sink_of(int(thread[0]) & PROCESS_MASK)
        columns = {name: batch.column(name) for name in ("slice_id", "start_ns", "dur_ns", "correlation", "sequence")}
        columns |= {name: batch.column(name) for name in ("category", "raw_category", "name")}
        columns["thread_id"] = pa.array(self._threads.number(thread, owner))
        columns["depth"] = pa.array(nested.depth[first:last])
        columns["parent_id"] = _ids(nested.parent_id[first:last])
        for column, ids in zip(("op_id", "annotation_id", "python_id"), nested.nearest, strict=True):
            columns[column] = _ids(ids[first:last])
        sink.append("host_slices", pa.table(columns))

    def _note_calls(self, batch: pa.RecordBatch, scope: Int, nested: Nested) -> None:
        is_call = known(batch.column("correlation"))
        if not count(is_call):
            return
        calls = pa.table(
            {
                "scope": pa.array(scope),
                "correlation": batch.column("correlation"),
                "start_ns": batch.column("start_ns"),
                "launch_id": batch.column("slice_id"),
                "cpu_op_id": _ids(nested.nearest[0]),
                "annotation_id": _ids(nested.nearest[1]),
                "sync_kind": batch.column("sync_kind"),
            }
        )
        known_calls = calls.filter(is_call).select(LAUNCHES.names)
        # Process and correlation id in one number: ids have 32 bits, processes 24 below the machine's.
        self._call_keys.append(
            known_calls["scope"].to_numpy() << 8 ^ known_calls["correlation"].to_numpy().astype(np.int64)
        )
        self._insert("calls", known_calls)
        waits = either(known(batch.column("sync_kind")), above(batch.column("records_event"), 0))
        if count(waits):
            self._insert("sync_calls", calls.filter(waits).select(SYNC_CALLS.names))

    def has_repeated_calls(self) -> bool:
        """Tell whether a process has several calls of one correlation id."""
        if not self._call_keys:
            return False
        # Nearly sorted already, which a stable sort makes use of.
        keys = np.sort(np.concatenate(self._call_keys), kind="stable")
        return bool((keys[1:] == keys[:-1]).any())

    def _insert(self, table: str, rows: pa.Table, *, create: bool = False) -> None:
        self._writer.register("incoming_calls", rows)
        self._writer.execute(
            f"CREATE OR REPLACE TABLE {table} AS FROM incoming_calls"
            if create
            else f"INSERT INTO {table} FROM incoming_calls"
        )
        self._writer.unregister("incoming_calls")


def _integers(batch: pa.RecordBatch, column: str) -> Int:
    return batch.column(column).to_numpy(zero_copy_only=False)


def _ids(ids: Int) -> Column:
    """Return ids with NONE as NULL."""
    return pa.array(ids, mask=ids == NONE)


def _runs(values: Int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    yield from pairwise([0, *edges.tolist(), len(values)])
