"""Ends of Python frames that the profiler left open until it stopped, as PyTorch did before August 2026.

https://github.com/pytorch/pytorch/issues/193440

The begin events of a thread whose ends are still to come, and those whose ends never come.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct

from traceanalyzer.ingest.nesting import Int
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.trace_events.chunks import PART_OPTIONS, sql, type_gpu_work
from traceanalyzer.ingest.trace_events.losses import Losses

# The part of a trace that holds the slices of begin and end events.
BEGIN_END_PART = "host-begin-end.parquet"
_CLOSED_FIELDS = ("event_id", "end_id", "dur_ns")

Row = tuple[Any, ...]


class OpenBegins:
    """Finds what an end event ends, in time that does not grow with the number of open events."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}  # by the order in which they began
        self._count = 0
        # Numbers of begin events by what an end may name: both, either or neither. Those that ended are still there.
        self._by_key: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)

    def add(self, row: Row, name: str | None, category: str | None) -> None:
        """Open an event."""
        self._rows[self._count] = row
        for key in {(name, category), (name, None), (None, category), (None, None)}:
            self._by_key[key].append(self._count)
        self._count += 1

    def take(self, name: str | None, category: str | None) -> Row | None:
        """Close and return the innermost open event of a name and a category, of any where they are None."""
        numbers = self._by_key.get((name, category), [])
        while numbers:
            row = self._rows.pop(numbers.pop(), None)
            if row is not None:
                return row
        return None

    def left(self) -> list[Row]:
        """Return the events that are still open, in the order in which they began."""
        return list(self._rows.values())


def close_begins(
    database: duckdb.DuckDBPyConnection, stage: Path, rows: list[Row], others: list[str], losses: Losses
) -> tuple[list[int], set[str]]:
    """Write begin and end events as parts of slices, of GPU work and of annotations on devices.

    Returns the ids of those that never end, which end with their thread, and the classes that there are.
    """
    closed, open_ids = match_begins(rows, losses)
    columns = zip(_CLOSED_FIELDS, zip(*closed, strict=True) if closed else ((), (), ()), strict=True)
    database.register("closed_begins", pa.table({name: pa.array(values, pa.int64()) for name, values in columns}))
    database.execute(sql("closed_begins"), {"other": others})
    database.unregister("closed_begins")
    work = stage / "gpu_events-begin-end.parquet"
    parts = {"host": stage / BEGIN_END_PART, "gpu_events": work, "other": stage / "other-begin-end.parquet"}
    for part, path in parts.items():
        query = sql(part).rstrip().removesuffix(";")
        database.execute(f"COPY ({query}) TO $path ({PART_OPTIONS})", {"base": 0, "path": str(path)})
    classes = {kind for (kind,) in database.execute("SELECT DISTINCT class FROM chunk").fetchall()}
    database.execute("DROP TABLE chunk")
    if "gpu" in classes:
        type_gpu_work(database, [str(work)], stage / "gpu-begin-end.parquet")
    work.unlink()
    return open_ids, classes


def match_begins(rows: list[Row], losses: Losses) -> tuple[list[tuple[int, int | None, int]], list[int]]:
    """Return each begin event with its end and its duration, and the ids of those that never end.

    An end closes the innermost open slice of its name and category. Without an end, they last as their thread.
    """
    closed: list[tuple[int, int | None, int]] = []
    open_ids: list[int] = []
    open_by_thread: dict[tuple[str, str], OpenBegins] = defaultdict(OpenBegins)
    last_ns: dict[tuple[str, str], int] = {}
    for row in rows:
        event_id, phase, raw_category, name, pid, tid, start_ns = row
        begins = open_by_thread[pid, tid]
        last_ns[pid, tid] = start_ns
        if phase == "B":
            begins.add(row, name, raw_category)
        elif (begin := begins.take(name, raw_category)) is None:
            losses.add("unmatched-end", None, name)
        else:
            closed.append((begin[0], event_id, start_ns - begin[6]))
    for thread, begins in open_by_thread.items():
        for event_id, _, _, name, _, _, start_ns in begins.left():
            losses.add("unfinished-begin", None, name)
            closed.append((event_id, None, last_ns[thread] - start_ns))
            open_ids.append(event_id)
    return closed, open_ids


def end_open_slices(database: duckdb.DuckDBPyConnection, stage: Path, open_ids: list[int], last_ns: int) -> None:
    """Rewrite the slices of begin events so that those that never ended last until the recording ends."""
    path = stage / BEGIN_END_PART
    if path.is_file():
        rows = database.sql(
            "SELECT * REPLACE (CASE WHEN event_id IN (SELECT unnest($ids)) THEN greatest(dur_ns, $last_ns - start_ns) "
            "ELSE dur_ns END AS dur_ns) FROM read_parquet($path)",
            params={"ids": open_ids, "last_ns": last_ns, "path": str(path)},
        ).to_arrow_table()
        database.from_arrow(rows).write_parquet(str(path))


def say_that_open(database: duckdb.DuckDBPyConnection, sink: TraceSink, open_ids: list[int]) -> None:
    """Add to the arguments of events that they never ended."""
    known: dict[str, object] = {"ids": open_ids}
    with_args: set[int] = set()
    for file in sink.files("event_args"):
        known |= {"path": file}
        found = database.execute(
            "SELECT event_id FROM read_parquet($path) WHERE event_id IN (SELECT unnest($ids))", known
        ).fetchall()
        if not found:
            continue
        with_args |= {event_id for (event_id,) in found}
        rows = database.sql(_WITH_OPEN, params=known).to_arrow_table()
        database.from_arrow(rows).write_parquet(file)
    without = [event_id for event_id in open_ids if event_id not in with_args]
    if without:
        table = database.sql(
            "SELECT unnest($ids)::BIGINT AS event_id, '{\"open\": true}' AS args", params={"ids": without}
        ).to_arrow_table()
        database.from_arrow(table).write_parquet(str(sink.folder / "event_args-open.parquet"))


_WITH_OPEN = """
SELECT
    event_id,
    CASE
        WHEN event_id NOT IN (SELECT unnest($ids)) THEN args
        WHEN json_valid(args) AND starts_with(ltrim(args), '{') THEN json_merge_patch(args, '{"open": true}')::VARCHAR
        ELSE '{"open": true}'
    END AS args
FROM read_parquet($path)
"""


# Old profilers cut starts and durations to whole microseconds: frames may overlap by so much.
ROUNDING_NS = 2_000

# event_id, pid, tid, frame_id, caller_id, start_ns, end_ns, stop_ns, is_built_in
FrameRow: TypeAlias = tuple[int, str | None, str | None, int | None, int | None, int, int, int, bool]


class _Frame(Struct):
    """A frame of a stack; `is_open` where its record does not say when it ended."""

    event_id: int
    frame_id: int | None
    caller_id: int | None
    start_ns: int
    end_ns: int
    recorded_end_ns: int
    is_open: bool = False

    def outlasts(self, other: _Frame) -> bool:
        """Return whether the frame is recorded as running clearly longer than another one."""
        return self.end_ns > other.end_ns + ROUNDING_NS

    def ends_with(self, other: _Frame) -> bool:
        """Return whether the frame ends no earlier than another one, as far as sums of microseconds in doubles tell."""
        return self.end_ns + 2_000 * math.ulp(self.end_ns / 1_000) >= other.end_ns

    def end_by(self, time_ns: int) -> None:
        """End the frame at a time, if it is recorded as running clearly longer."""
        if self.end_ns > time_ns + ROUNDING_NS:
            self.end_ns = max(time_ns, self.start_ns)


def end_open_frames(starts: Int, durations: Int) -> Int:
    """Return durations of the frames of a thread, which have no ids: those left open end with the frame around them.

    Frames that last until the recording stops are open, unless all that are around them do so, too.
    """
    ends = starts + durations
    order = np.lexsort((-durations, starts))
    is_open = ends[order] + ROUNDING_NS >= ends.max(initial=0)
    reached = np.maximum.accumulate(np.where(is_open, -(2**62), ends[order]))
    if not (is_open & (reached > starts[order])).any():
        return durations
    found = FrameEnds()
    stop_ns = int(ends.max())
    found.feed((int(at), None, None, None, None, int(starts[at]), int(ends[at]), stop_ns, False) for at in order)
    ended = found.ended()
    durations = durations.copy()
    durations[ended.column("event_id").to_numpy()] = ended.column("dur_ns").to_numpy()
    return durations


class FrameEnds:
    """Ends open frames with the frame around them, and before the next call of their caller; holds one stack of frames.

    Open are frames that outlast their caller, built-in ones that end with it or with the recording, and without ids all
    that end with the recording. The ends of others are true even where another frame says that it was called elsewhere:
    PyTorch names a wrong caller now and then.
    """

    def __init__(self) -> None:
        self._thread: tuple[str | None, str | None] | None = None
        self._stack: list[_Frame] = []
        # Places in the stack, by the id of the frame, and of its caller where that is not in the stack.
        self._frames: dict[int, int] = {}
        self._called_by: dict[int, int] = {}
        self._ended_ids = array("q")
        self._durations = array("q")

    def feed(self, rows: Iterable[FrameRow]) -> None:
        """Take further frames: by thread, in the order in which it entered them."""
        for event_id, pid, tid, frame_id, caller_id, start_ns, end_ns, stop_ns, is_built_in in rows:
            if (pid, tid) != self._thread:
                self._leave(0)
                self._thread = (pid, tid)
            while self._stack and self._stack[-1].end_ns <= start_ns:
                self._leave(len(self._stack) - 1)
            frame = _Frame(event_id, frame_id, caller_id, start_ns, end_ns, end_ns)
            self._enter(frame, end_ns + ROUNDING_NS >= stop_ns, is_built_in)

    def ended(self) -> pa.Table:
        """Return the frames that end before their record says so, with their durations, once all frames were fed."""
        self._leave(0)
        columns = {"event_id": self._ended_ids, "dur_ns": self._durations}
        return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})

    def _enter(self, frame: _Frame, ends_at_stop: bool, is_built_in: bool) -> None:
        if frame.frame_id is None:
            frame.is_open = ends_at_stop
        else:
            caller = self._return_to_caller(frame)
            ends_with_caller = caller is not None and frame.ends_with(caller)
            frame.is_open = is_built_in and (ends_at_stop or ends_with_caller)
            frame.is_open |= caller is not None and frame.outlasts(caller)
            self._frames[frame.frame_id] = len(self._stack)
        if frame.is_open and self._stack:
            frame.end_by(self._stack[-1].end_ns)
        self._stack.append(frame)

    def _return_to_caller(self, frame: _Frame) -> _Frame | None:
        """End open frames that a frame's caller called before; None: the caller is not in the stack."""
        if frame.caller_id is None:
            self._end_open_frames(0, frame.start_ns)
            return None
        place = self._frames.get(frame.caller_id)
        if place is not None:
            self._end_open_frames(place + 1, frame.start_ns)
            return self._stack[place]
        self._end_open_frames(self._called_by.get(frame.caller_id, len(self._stack)), frame.start_ns)
        self._called_by[frame.caller_id] = len(self._stack)
        return None

    def _end_open_frames(self, depth: int, time_ns: int) -> None:
        """End the open frames at the end of the stack, down to a depth; those around one that runs are running."""
        while len(self._stack) > depth and self._stack[-1].is_open:
            self._stack[-1].end_by(time_ns)
            self._leave(len(self._stack) - 1)

    def _leave(self, depth: int) -> None:
        while len(self._stack) > depth:
            frame = self._stack.pop()
            if frame.frame_id is not None:
                self._frames.pop(frame.frame_id, None)
            if frame.caller_id is not None:
                self._called_by.pop(frame.caller_id, None)
            if frame.end_ns < frame.recorded_end_ns:
                self._ended_ids.append(frame.event_id)
                self._durations.append(frame.end_ns - frame.start_ns)
