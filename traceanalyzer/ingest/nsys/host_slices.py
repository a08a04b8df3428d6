"""Host slices: sorted, nested batch by batch, written per process; the calls that GPU work refers to.

Calls are found by process and correlation id in arrays, which take a quarter of a join's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import NONE, Int, Nested, Nester, Slices, ancestor_codes, id_column, name_hashes
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import Column, Mask, count, differs, either, known, negated, one_of
from traceanalyzer.ingest.nsys.nvtx import SliceNamer
from traceanalyzer.ingest.nsys.torch_ranges import coded
from traceanalyzer.ingest.sink import TraceSink

# What a call says about the GPU work that it launched, as ids of slices.
LINKS = ("launch_id", "cpu_op_id", "annotation_id")
# Calls of a runtime lie in each other up to this depth and share an id; one that more calls have stands for none.
MOST_CALLS_OF_ID = 4


@dataclass(frozen=True)
class Calls:
    """Some calls of one process: correlation ids, starts, and what LINKS says."""

    correlation: npt.NDArray[Any]
    start_ns: Int
    links: tuple[Int, ...]


class Launches:
    """Collects calls, then finds the call that launched GPU work: the first one, where a few share an id."""

    def __init__(self, event_count: int) -> None:
        self._id_type = np.dtype(np.int32 if event_count < 2**31 else np.int64)
        self._processes: dict[int, _ProcessCalls] = {}

    def add(self, scope: int, calls: Calls) -> None:
        self._processes.setdefault(scope, _ProcessCalls()).add(calls, self._id_type)

    def close(self) -> int:
        """Make the calls ready to be found, and return how many share an id with an earlier one."""
        return sum(process.close() for process in self._processes.values())

    def forget(self) -> None:
        """Give up the memory of all calls."""
        self._processes.clear()

    def find(self, scopes: Column, correlations: Column) -> list[Column]:
        """Return what LINKS says of the calls of some GPU work; NULL where there is none."""
        scope, correlation = _or_none(scopes), _or_none(correlations)
        found = [np.full(len(scope), NONE, np.int64) for _ in LINKS]
        for process in np.unique(scope).tolist():
            if process in self._processes:
                rows = np.flatnonzero(scope == process)
                for ids, own in zip(found, self._processes[process].find(correlation[rows]), strict=True):
                    ids[rows] = own
        return [id_column(ids) for ids in found]


class _ProcessCalls:
    """The calls of one process; columns are correlation ids, starts and LINKS."""

    def __init__(self) -> None:
        self._pieces: list[list[npt.NDArray[Any]]] = [[] for _ in range(2 + len(LINKS))]
        self._correlation = np.empty(0, np.uint32)
        self._links: list[npt.NDArray[Any]] = []

    def add(self, calls: Calls, id_type: np.dtype[Any]) -> None:
        links = [ids.astype(id_type) for ids in calls.links]
        columns: list[npt.NDArray[Any]] = [calls.correlation, calls.start_ns, *links]
        for pieces, column in zip(self._pieces, columns, strict=True):
            pieces.append(column)

    def close(self) -> int:
        correlation = self._joined(0)
        # A single thread numbers its calls one after the other.
        if (correlation[1:] > correlation[:-1]).all():
            self._pieces[1] = []
            self._correlation = correlation
            self._links = [self._joined(place) for place in range(2, len(self._pieces))]
            return 0
        starts, launch_ids = self._joined(1), self._joined(2)
        order = np.argsort(correlation, kind="stable")
        ordered = correlation[order]
        repeats = ordered[1:] == ordered[:-1]
        if repeats.any():
            firsts = np.append(True, ~repeats)
            call_counts = np.diff(np.append(np.flatnonzero(firsts), len(order)))
            order = np.lexsort((launch_ids, starts, correlation))[firsts][call_counts <= MOST_CALLS_OF_ID]
            ordered = correlation[order]
        del correlation, starts
        self._correlation = ordered
        self._links = [launch_ids[order], *(self._joined(place)[order] for place in range(3, len(self._pieces)))]
        return int(repeats.sum())

    def find(self, correlation: Int) -> list[Int]:
        # Of the same type: another one would have all of them converted for every search.
        wanted = correlation.astype(self._correlation.dtype)
        if not len(self._correlation):
            return [np.full(len(wanted), NONE, np.int64) for _ in self._links]
        at = np.minimum(np.searchsorted(self._correlation, wanted), len(self._correlation) - 1)
        is_known = self._correlation[at] == correlation
        return [np.where(is_known, ids[at], NONE) for ids in self._links]

    def _joined(self, place: int) -> npt.NDArray[Any]:
        """Return a column in one piece, and forget its pieces."""
        column = np.concatenate(self._pieces[place])
        self._pieces[place] = []
        return column


def _or_none(column: Column) -> Int:
    return cast("Column", pc.call_function("coalesce", [column, pa.scalar(NONE)])).to_numpy()


PROCESS_MASK = -16777216  # clears the thread in a globalTid
_BACKTRACE_CLASS = (67,)

_SYNC_FIELDS: dict[str, pa.DataType] = {
    "scope": pa.int64(),
    "correlation": pa.int64(),
    "sync_kind": pa.string(),
    "start_ns": pa.int64(),
}
SYNC_CALLS = pa.schema(_SYNC_FIELDS)
_ARGUMENT_FIELDS: dict[str, pa.DataType] = {"event_id": pa.int64(), "args": pa.string()}
ARGUMENTS = pa.schema(_ARGUMENT_FIELDS)
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
        gpu_scopes: Collection[int],
        detailed_ranges: Callable[[], Int],
        launches: Launches,
    ) -> None:
        self._connection = connection
        self._sink_of = sink_of
        self._threads = threads
        self._gpu_scopes = gpu_scopes
        self._detailed_ranges = detailed_ranges
        self._launches = launches
        self._namer = SliceNamer(connection)
        self._nester = Nester()
        self.with_shapes: set[int] = set()

    def write(self, slices: Iterable[pa.RecordBatch]) -> None:
        """Write slices, which come in order, and note the calls; fill the tables `sync_calls` and `operator_args`."""
        for name, schema in (("sync_calls", SYNC_CALLS), ("operator_args", ARGUMENTS)):
            self._insert(name, pa.Table.from_batches([], schema), create=True)
        for batch in slices:
            self._write_batch(self._namer.complete(batch))

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        thread = _integers(batch, "thread")
        codes = ancestor_codes(*coded(batch.column("category")))
        slice_id = _integers(batch, "slice_id")
        start, dur = _integers(batch, "start_ns"), _integers(batch, "dur_ns")
        nested = self._nester.feed(Slices(slice_id, thread, start, dur, codes, name_hashes(batch.column("name"))))
        scope = thread & PROCESS_MASK
        self._note_calls(batch, scope, nested)
        for first, last in _runs(scope):
            self._write_process(batch.slice(first, last - first), thread[first:last], nested, first, last)

    def _write_process(self, batch: pa.RecordBatch, thread: Int, nested: Nested, first: int, last: int) -> None:
        scope = int(thread[0]) & PROCESS_MASK
        owner, sink = self._sink_of(scope)
        columns = {name: batch.column(name) for name in ("slice_id", "start_ns", "dur_ns", "correlation", "sequence")}
        columns |= {name: batch.column(name) for name in ("category", "raw_category", "name", "input_shapes")}
        # Numbered by process: those of a process that drives no GPU could be mistaken for another's of the trace.
        if scope in self._gpu_scopes:
            columns["external_id"] = batch.column("external_id")
        columns["thread_id"] = pa.array(self._threads.number(thread, owner))
        sink.append("host_slices", pa.table(columns | nested.columns(first, last)))
        has_args = known(batch.column("args"))
        if count(has_args):
            self.with_shapes.add(owner)
            self._write_args(batch.filter(has_args), sink)

    def _write_args(self, batch: pa.RecordBatch, sink: TraceSink) -> None:
        """Write operators' arguments; those of ranges that have more to add are kept, because an event has one row."""
        rows = pa.table({"event_id": batch.column("slice_id"), "args": batch.column("args")})
        is_detailed = pa.array(np.isin(_integers(batch, "slice_id"), self._detailed_ranges()))
        sink.append("event_args", rows.filter(negated(is_detailed)))
        if count(is_detailed):
            self._insert("operator_args", rows.filter(is_detailed))

    def _note_calls(self, batch: pa.RecordBatch, scope: Int, nested: Nested) -> None:
        is_call = known(batch.column("correlation"))
        if not count(is_call):
            return
        rows = np.flatnonzero(is_call.to_numpy(zero_copy_only=False))
        calls, scope = batch.filter(is_call), scope[rows]
        correlation: npt.NDArray[Any] = _integers(calls, "correlation")
        if correlation.min() >= 0 and correlation.max() < 2**32:  # CUPTI numbers in 32 bits
            correlation = correlation.astype(np.uint32)
        start, slice_id = _integers(calls, "start_ns"), _integers(calls, "slice_id")
        operator, annotation, *_ = (ids[rows] for ids in nested.nearest)
        for first, last in _runs(scope):
            part = slice(first, last)
            links = (slice_id[part], operator[part], annotation[part])
            self._launches.add(int(scope[first]), Calls(correlation[part], start[part], links))
        waits = either(known(calls.column("sync_kind")), cast("Mask", calls.column("records_event")))
        if count(waits):
            columns = {name: calls.column(name) for name in SYNC_CALLS.names if name != "scope"}
            waiting = pa.table({"scope": pa.array(scope), **columns}).filter(waits)
            self._insert("sync_calls", waiting.select(SYNC_CALLS.names))

    def _insert(self, table: str, rows: pa.Table, *, create: bool = False) -> None:
        self._connection.register("incoming_rows", rows)
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {table} AS FROM incoming_rows"
            if create
            else f"INSERT INTO {table} FROM incoming_rows"
        )
        self._connection.unregister("incoming_rows")


def _integers(batch: pa.RecordBatch, column: str) -> Int:
    return batch.column(column).to_numpy().astype(np.int64, copy=False)


def _runs(values: Int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    yield from pairwise([0, *edges.tolist(), len(values)])
