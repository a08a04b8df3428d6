"""What the graph of a window is made of: calls, operations and synchronisations, read from the tables of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.errors import TraceAnalyzerError

# Host work that starts at or after this time is left out; no trace lasts as long.
_NEVER_NS = 2**62
_STEP = "ProfilerStep"


@dataclass(frozen=True, slots=True)
class HostCall:
    """An operator, or a call of a runtime or driver; `position` is the event's position in the file."""

    position: int
    thread_id: int
    name: str
    start_ns: int
    end_ns: int
    is_call: bool
    correlation: int | None


@dataclass(frozen=True, slots=True)
class DeviceOp:
    """A GPU operation and the call that launched it."""

    position: int
    device: int
    stream: int
    name: str
    start_ns: int
    end_ns: int
    launch_position: int


@dataclass(frozen=True, slots=True)
class RecordedSync:
    """A synchronisation: what waits, and for what."""

    position: int
    kind: str
    device: int | None
    stream: int | None
    start_ns: int
    end_ns: int
    correlation: int | None
    wait_on_stream: int | None
    wait_on_correlation: int | None


@dataclass(frozen=True)
class PathWindow:
    """A part of a trace by its annotation; `annotation` is empty for all of it."""

    annotation: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class PathRecords:
    """The records of a trace, without the last profiler step if there are several, and the window to look at.

    `calls`, `ops` and `syncs` are by position in the file; `merged` maps a thread to the one that it counts with.
    """

    window: PathWindow
    calls: dict[int, HostCall]
    ops: tuple[DeviceOp, ...]
    syncs: tuple[RecordedSync, ...]
    merged: dict[int, int]
    unlinked_op_count: int


def read_records(
    connection: duckdb.DuckDBPyConnection, trace_id: int, annotation: str = "", instance: int = 0
) -> PathRecords:
    """Return the records of a trace and one window: an instance of the annotations whose names contain a text, or all.

    Raises TraceAnalyzerError if there is no such instance.
    """
    steps = _rows(connection, "annotations", trace_id=trace_id, part=_STEP)
    names = {name for _, _, name, *_ in steps}
    before_ns = max(start_ns for *_, start_ns, _ in steps) if len(names) > 1 else _NEVER_NS
    rows = (HostCall(*row) for row in _rows(connection, "host_calls", trace_id=trace_id))
    calls = {call.position: call for call in rows if call.start_ns < before_ns}
    correlations = {call.correlation for call in calls.values() if call.is_call}
    every = [DeviceOp(*row) for row in _rows(connection, "device_ops", trace_id=trace_id)]
    syncs = [RecordedSync(*row) for row in _rows(connection, "sync_records", trace_id=trace_id)]
    window = _window(connection, trace_id, annotation, instance, before_ns)
    unlinked = "SELECT count(*) FROM canonical.gpu_ops WHERE trace_id = ? AND launch_id IS NULL"
    return PathRecords(
        window,
        calls,
        tuple(op for op in every if op.launch_position in calls),
        tuple(sync for sync in syncs if sync.correlation in correlations),
        _merged_threads(connection, trace_id, window),
        connection.execute(unlinked, [trace_id]).fetchall()[0][0],
    )


def _window(
    connection: duckdb.DuckDBPyConnection, trace_id: int, annotation: str, instance: int, before_ns: int
) -> PathWindow:
    if not annotation:
        ((start_ns, end_ns),) = _rows(connection, "recorded_span", trace_id=trace_id, before_ns=before_ns)
        return PathWindow("", start_ns or 0, end_ns or 0)
    rows = _rows(connection, "annotations", trace_id=trace_id, part=annotation)
    marks = [(name, start_ns, end_ns) for _, _, name, start_ns, end_ns in rows if start_ns < before_ns]
    if not 0 <= instance < len(marks):
        number = f"{len(marks)} annotations" if marks else "no annotation"
        hint = "numbers begin at 0; `traceanalyzer sql` shows names: SELECT name FROM host_slices"
        raise TraceAnalyzerError(f"{number} with {annotation!r} in the name, so none is number {instance}", None, hint)
    return PathWindow(*marks[instance])


def _merged_threads(connection: duckdb.DuckDBPyConnection, trace_id: int, window: PathWindow) -> dict[int, int]:
    """Return the backward thread → the forward thread, where exactly one thread each has such a name in the window."""
    threads = []
    for part in ("autograd", "forward"):
        rows = _rows(connection, "annotations", trace_id=trace_id, part=part)
        threads.append({thread for _, thread, _, start_ns, _ in rows if window.start_ns <= start_ns <= window.end_ns})
    backward, forward = threads
    return dict(zip(backward, forward, strict=True)) if len(backward) == len(forward) == 1 else {}


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **values: Any) -> list[tuple[Any, ...]]:
    text = (Path(__file__).parent / "sql" / f"{query}.sql").read_text(encoding="utf-8")
    return connection.execute(text, values).fetchall()
