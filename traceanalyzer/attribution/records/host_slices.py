"""The slices of the threads that issue GPU work, as arrays, and the recorded waits of streams for other streams."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import cast

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct

from traceanalyzer.attribution.columns import NO_ROW, Flags, Ints, codes_of, column
from traceanalyzer.attribution.records.device_ops import DeviceOps, as_launched
from traceanalyzer.process import give_memory_back

# Calls that lie on a line of their own count to the thread that makes them.
_QUERY = """
SELECT slice_id, COALESCE(twin_id, slices.thread_id) AS thread_id, category, name, start_ns,
       start_ns + dur_ns AS end_ns, depth, parent_id, op_id, annotation_id, python_id, correlation,
       twin_id IS NOT NULL AS is_moved
FROM canonical.host_slices AS slices
LEFT JOIN canonical.threads AS threads USING (trace_id, thread_id)
WHERE trace_id = $trace_id
  AND list_contains($threads, COALESCE(twin_id, slices.thread_id))
"""
_NUMBERS = (
    *("slice_id", "thread_id", "start_ns", "end_ns", "depth"),
    *("parent_id", "op_id", "annotation_id", "python_id", "correlation"),
)

# With more ids per row than this, a table of all ids would be mostly empty.
_MOST_IDS_A_ROW = 64
_MIN_ROWS = 65_536


class HostSlices(Struct, frozen=True):
    """Slices ordered by thread, start, longer first. Row numbers stand for slices; NO_ROW for none."""

    slice_id: Ints
    thread: Ints
    start: Ints
    end: Ints
    depth: Ints
    parent: Ints
    op_id: Ints  # a slice id, like the next two: few slices need the row
    annotation_id: Ints
    python_id: Ints
    correlation: Ints
    name_code: Ints
    names: tuple[str, ...]  # by name_code
    categories: tuple[str, ...]  # by name_code: a code stands for a category and a name
    by_id: RowsById

    @property
    def threads(self) -> list[int]:
        """Return the threads with slices, in order."""
        found: list[int] = self.thread[np.flatnonzero(np.diff(self.thread, prepend=NO_ROW))].tolist()
        return found

    @property
    def count(self) -> int:
        return len(self.slice_id)

    def flags(self, by_name: list[bool], rows: Ints | slice = slice(None)) -> Flags:
        """Return a flag for each slice, or for some, from a flag for each name code."""
        return np.asarray(by_name, dtype=np.bool_)[self.name_code[rows]] if self.count else np.zeros(0, np.bool_)

    def rows_of(self, slice_ids: Ints) -> Ints:
        """Return the row of each slice id, NO_ROW where it is not among these slices."""
        return self.by_id.of(slice_ids)

    def around(self, wanted: Flags) -> Around:
        """Return which of the wanted slices are around each slice."""
        innermost = nearest_above(self.parent, wanted)
        later = innermost.copy()
        rows = np.flatnonzero(wanted)
        while len(rows):
            rows = rows[later[rows] != NO_ROW]
            rows = rows[self.end[later[rows]] <= self.end[rows]]
            later[rows] = later[later[rows]]
        return Around(self.end, innermost, later)


def nearest_above(parent: Ints, wanted: Flags) -> Ints:
    """Return the innermost slice around each slice that is wanted; NO_ROW: none is."""
    above = parent.copy()
    rows = np.arange(len(above))
    # Each round a slice looks as far as what it looks at has looked: deep nesting takes few.
    while len(rows):
        rows = rows[above[rows] != NO_ROW]
        rows = rows[~wanted[above[rows]]]
        above[rows] = above[above[rows]]
    return above


class Around(Struct, frozen=True):
    """Of some slices the innermost around each slice, and around each of them the next that ends later than it."""

    end: Ints
    innermost: Ints
    later: Ints

    def open_after(self, rows: Ints, after: Ints) -> Ints:
        """Return the innermost of them around each row that is still open after an instant; NO_ROW: none is."""
        above = self.innermost[rows]
        at = np.arange(len(rows))
        while len(at):
            at = at[above[at] != NO_ROW]
            at = at[self.end[above[at]] <= after[at]]
            above[at] = self.later[above[at]]
        return above


class RowsById:
    """Finds the row of an id; ids are unique and not negative; NO_ROW has no row."""

    def __init__(self, ids: Ints) -> None:
        self._ids = ids
        top = int(ids.max(initial=NO_ROW))
        # Ids are positions in a file, and these slices are a good part of it: a table is much faster than a search.
        self._rows = np.full(top + 2, NO_ROW) if top < _MOST_IDS_A_ROW * max(len(ids), _MIN_ROWS) else None
        if self._rows is not None:
            self._rows[ids] = np.arange(len(ids))
        self._order = np.argsort(ids) if self._rows is None else None

    def of(self, ids: Ints) -> Ints:
        """Return the row of each id, NO_ROW where there is none."""
        if self._rows is not None:
            # The last entry answers ids without a row: NO_ROW (-1) reads it from the end.
            if ids.max(initial=NO_ROW) >= len(self._rows):
                ids = np.where(ids >= len(self._rows), NO_ROW, ids)
            found: Ints = self._rows[ids]
            return found
        at = np.minimum(np.searchsorted(self._ids, ids, sorter=self._order), len(self._ids) - 1)
        rows = cast(Ints, self._order)[at]
        return np.where(self._ids[rows] == ids, rows, NO_ROW)


def _name_codes(table: pa.Table) -> tuple[Ints, tuple[str, ...], tuple[str, ...]]:
    name_codes, names = codes_of(table["name"])
    category_codes, categories = codes_of(table["category"])
    name_texts, category_texts = [name or "" for name in names], [category or "" for category in categories]
    pairs = name_codes * len(category_texts) + category_codes
    # There are few pairs: counting each is faster than sorting all rows.
    is_there = np.bincount(pairs, minlength=len(name_texts) * len(category_texts)) > 0
    distinct = np.flatnonzero(is_there)
    return (
        (np.cumsum(is_there) - 1)[pairs],
        tuple(name_texts[pair // len(category_texts)] for pair in distinct.tolist()),
        tuple(category_texts[pair % len(category_texts)] for pair in distinct.tolist()),
    )


def _order(thread: Ints, start: Ints, end: Ints, slice_id: Ints) -> Ints | None:
    """Return the rows by thread, start, longer first; None: they have this order, which is that of the store."""
    same_thread = thread[1:] == thread[:-1]
    if not (np.any(thread[1:] < thread[:-1]) or np.any(same_thread & (start[1:] < start[:-1]))):
        tied = np.flatnonzero(same_thread & (start[1:] == start[:-1]))
        longer, same_end = end[tied] > end[tied + 1], end[tied] == end[tied + 1]
        if (longer | same_end & (slice_id[tied] < slice_id[tied + 1])).all():
            return None
    ordered: Ints = np.lexsort((slice_id, -end, start, thread))
    return ordered


def _nested_in_twins(thread: Ints, end: Ints, moved: Ints, parent: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """Return parents and depths with calls of other lines nested in what the thread does around them.

    A call contains no slice of the other line, so its parent is the innermost one that is open when it starts.
    """
    is_moved = np.zeros(len(thread), np.bool_)
    is_moved[moved] = True
    rows = np.arange(len(thread))
    last_own = np.maximum.accumulate(np.where(is_moved, NO_ROW, rows))
    above = last_own[moved]
    above[(above != NO_ROW) & (thread[above] != thread[moved])] = NO_ROW
    over = np.flatnonzero((above != NO_ROW) & (end[above] < end[moved]))
    while len(over):
        above[over] = parent[above[over]]
        over = over[(above[over] != NO_ROW) & (end[above[over]] < end[moved[over]])]
    free = parent[moved] == NO_ROW
    parent, depth = parent.copy(), depth.copy()
    parent[moved[free]] = above[free]
    depth[moved] += np.where(above == NO_ROW, 0, depth[above] + 1)
    return parent, depth


def load_host_slices(con: duckdb.DuckDBPyConnection, trace_id: int, threads: list[int]) -> HostSlices:
    """Read the slices of some threads of a trace."""
    params = {"trace_id": trace_id, "threads": threads}
    table = con.sql(_QUERY, params=params).to_arrow_table()
    codes, names, categories = _name_codes(table)
    is_moved = table["is_moved"].to_numpy()
    numbers = {name: column(table, name) for name in _NUMBERS}
    del table  # its texts take as much as all numbers
    give_memory_back()
    order = _order(*(numbers[name] for name in ("thread_id", "start_ns", "end_ns", "slice_id")))
    if order is not None:
        codes, is_moved = codes[order], is_moved[order]
        for name in _NUMBERS:
            numbers[name] = numbers[name][order]
    by_id = RowsById(numbers["slice_id"])
    parent, depth = by_id.of(numbers["parent_id"]), numbers["depth"]
    moved = np.flatnonzero(is_moved)
    if len(moved):
        parent, depth = _nested_in_twins(numbers["thread_id"], numbers["end_ns"], moved, parent, depth)
    return HostSlices(
        slice_id=numbers["slice_id"],
        thread=numbers["thread_id"],
        start=numbers["start_ns"],
        end=numbers["end_ns"],
        depth=depth,
        parent=parent,
        op_id=numbers["op_id"],
        annotation_id=numbers["annotation_id"],
        python_id=numbers["python_id"],
        correlation=numbers["correlation"],
        name_code=codes,
        names=names,
        categories=categories,
        by_id=by_id,
    )


_WAITS_QUERY = """
SELECT s.stream, call.start_ns AS asked_ns, s.wait_on_stream,
       COALESCE(recorded.start_ns, call.start_ns) AS recorded_ns
FROM canonical.syncs AS s
INNER JOIN canonical.host_slices AS call
  ON call.trace_id = s.trace_id AND call.correlation = s.correlation AND call.category IN ('runtime', 'driver')
LEFT JOIN canonical.host_slices AS recorded
  ON recorded.trace_id = s.trace_id
  AND recorded.correlation = s.wait_on_correlation
  AND recorded.category IN ('runtime', 'driver')
WHERE s.trace_id = $trace_id
  AND s.kind = 'stream_wait'
  AND s.stream IS NOT NULL
  AND s.wait_on_stream IS NOT NULL
  AND COALESCE(s.device, $device) = $device
ORDER BY call.start_ns, s.sync_id
"""


class RecordedWaits:
    """The ops that a stream must wait for before the next op launched to it; waits are added in the order of calls.

    A wait for a stream includes the stream's own pending waits, even if nothing was launched to it since.
    """

    def __init__(self, ops: DeviceOps, streams: Iterable[int]) -> None:
        self.awaited: dict[int, dict[int, int]] = {}  # row of a waiting op -> stream -> row of its op
        self._ops = ops
        self._launched = {stream: as_launched(ops, ops.stream == stream).tolist() for stream in streams}
        self._launch = {stream: ops.launch_start[rows].tolist() for stream, rows in self._launched.items()}
        # By stream: the time of each wait call, and the ops that the stream waits for until its next launch.
        self._pending: dict[int, list[tuple[int, dict[int, int]]]] = {stream: [] for stream in self._launched}

    @property
    def are_there(self) -> bool:
        return any(self._pending.values())

    def add(self, stream: int, requested: int, source: int, recorded: int) -> None:
        """Make a stream wait, from `requested` on, for all work that `source` had at the time `recorded`."""
        event = self.waits_for(source, recorded)
        before = bisect_left(self._launch[source], recorded) - 1
        if before >= 0:
            event = self._later(event, {source: self._launched[source][before]})
        event.pop(stream, None)
        self._pending[stream].append((requested, self._later(self.waits_for(stream, requested + 1), event)))
        after = bisect_left(self._launch[stream], requested)
        if after < len(self._launched[stream]) and event:
            row = self._launched[stream][after]
            self.awaited[row] = self._later(self.awaited.get(row, {}), event)

    def waits_for(self, stream: int, until: int) -> dict[int, int]:
        """Return the pending waits of a stream at an instant: those after its last launch before it."""
        pending, launch = self._pending.get(stream, []), self._launch.get(stream, [])
        at = bisect_left(pending, until, key=itemgetter(0)) - 1
        if at < 0 or bisect_left(launch, pending[at][0]) < bisect_left(launch, until):
            return {}
        return dict(pending[at][1])

    def _later(self, one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
        """Join both; per stream the op that ends last stands for all before it."""
        ends = self._ops.end
        return {**one, **{key: max(op, one.get(key, op), key=ends.__getitem__) for key, op in other.items()}}


def load_recorded_waits(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> RecordedWaits:
    rows = con.execute(_WAITS_QUERY, {"trace_id": trace_id, "device": ops.device}).fetchall()
    waits = RecordedWaits(ops, {stream for wait in rows for stream in (wait[0], wait[2])})
    for wait in rows:
        waits.add(*wait)
    return waits
