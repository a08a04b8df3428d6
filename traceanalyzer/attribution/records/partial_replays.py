"""Replays of graphs that were recorded in part, or not at all: when the work ran that is missing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.columns import NO_ROW, Flags, Ints
from traceanalyzer.attribution.records.device_ops import DeviceOps, as_launched
from traceanalyzer.metrics import macro_files

_MACROS = ("calls_to", "uncovered_ns", "graph_replays")
_QUERY = """
SELECT launch_id, usual_launch_id
FROM graph_replays()
WHERE trace_id = $trace_id AND is_under_recorded
ORDER BY start_ns, launch_id
"""
# Calls of replays without any operation; their device is that of what their thread launched before, else after.
_LOST_QUERY = """
WITH replays AS (
    SELECT slice_id, parent_id, thread_id, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    WHERE trace_id = $trace_id
      AND category IN ('runtime', 'driver')
      AND calls_to(name, 'replay')
),
launched AS (
    SELECT calls.thread_id, calls.start_ns, ops.device
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
    WHERE ops.trace_id = $trace_id
)
SELECT replays.start_ns, replays.end_ns
FROM replays
ASOF LEFT JOIN launched AS before ON before.thread_id = replays.thread_id AND before.start_ns <= replays.end_ns
ASOF LEFT JOIN launched AS following
  ON following.thread_id = replays.thread_id AND following.start_ns > replays.end_ns
WHERE (before.start_ns IS NULL OR before.start_ns < replays.start_ns)
  AND NOT EXISTS (FROM replays AS outer_call WHERE outer_call.slice_id = replays.parent_id)
  AND coalesce(before.device, following.device) = $device
ORDER BY replays.start_ns, replays.end_ns
"""
# Calls that return when all work of a device, or of a stream, is done.
_RETURNS_QUERY = """
SELECT start_ns, start_ns + dur_ns AS end_ns
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND category IN ('runtime', 'driver')
  AND regexp_matches(name, '(Device|Stream|Ctx)Synchronize')
ORDER BY end_ns, start_ns
"""
# A replay takes this much less time than usual, at most: a call that returns within it was waiting for the replay.
JITTER_SHARE = 0.25


class _Stretches(Struct, frozen=True):
    """Disjoint stretches of time, in order."""

    start: Ints
    end: Ints


class _PartialReplay(Struct, frozen=True):
    """One replay from where its first operation should begin to where its last one should end."""

    start: int
    end: int
    last: int  # row of the last operation that was recorded, of it or before it; NO_ROW: none
    ops: Ints


def with_missing_work(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> DeviceOps:
    """Return ops whose last one of a partly recorded replay ends when the replay usually does: `recorded_end` stays.

    Of a replay without any operation the last one before it ends when the replay does, at the latest. What the replay
    delayed, work or a call of the host, waited for what is missing.
    """
    for name in _MACROS:
        con.execute(macro_files()[name])
    partial = {}
    if any("GraphLaunch" in name for name in ops.launch_name.among(ops.linked)):
        partial = dict(con.execute(_QUERY, {"trace_id": trace_id}).fetchall())
    lost = _pairs(con.execute(_LOST_QUERY, {"trace_id": trace_id, "device": ops.device}))
    if not partial and not len(lost):
        return ops
    returns = _pairs(con.execute(_RETURNS_QUERY, {"trace_id": trace_id}))
    found = [*_partial_replays(ops, partial, returns), *_lost_replays(ops, lost, returns)]
    end = ops.end.copy()
    for stretch in found:
        if stretch.last != NO_ROW:
            end[stretch.last] = max(int(end[stretch.last]), stretch.end)
    holes = _without_work(ops, found)
    return replace(ops, end=end, missing_start=holes.start, missing_end=holes.end)


def _pairs(rows: duckdb.DuckDBPyConnection) -> Ints:
    return np.asarray(rows.fetchall(), np.int64).reshape(-1, 2)


def _partial_replays(ops: DeviceOps, usual_of: dict[int, int], returns: Ints) -> Iterator[_PartialReplay]:
    """Yield the partly recorded replays; `usual_of` holds a whole replay of the same graph for each of them."""
    if not usual_of:
        return
    rows = np.flatnonzero(np.isin(ops.launch_id, [*usual_of, *usual_of.values()]))
    rows = rows[np.argsort(ops.launch_id[rows], kind="stable")]
    launches, first = np.unique(ops.launch_id[rows], return_index=True)
    of_launch = dict(zip(launches.tolist(), np.split(rows, first[1:]), strict=True))
    names = ops.name.codes
    by_stream = {stream: np.flatnonzero(ops.stream == stream) for stream in np.unique(ops.stream[rows]).tolist()}
    done = int(ops.end.max())
    for launch, usual in usual_of.items():
        replay, whole = of_launch.get(launch), of_launch.get(usual)
        if replay is None or whole is None:
            continue
        missing = max(0, _span(ops, whole) - _span(ops, replay))
        head, tail = _open_sides(names[replay], names[whole])
        last = int(replay[np.argmax(ops.end[replay])])
        begin, end = int(ops.start[replay[0]]), int(ops.end[last])
        before, after = _neighbours(ops, replay, by_stream)
        since = max(begin - missing, before, int(ops.launch_end[last])) if head else begin
        until = min(end + missing, after, done) if tail else end
        until = _returned(returns, int(ops.launch_start[last]), until, missing)
        yield _PartialReplay(min(since, begin), max(until, end), last, replay)


def _lost_replays(ops: DeviceOps, lost: Ints, returns: Ints) -> Iterator[_PartialReplay]:
    """Yield replays of which nothing was recorded, from when they can begin to when they are over at the latest.

    They begin after the work that was launched before them, and are over when a call that waits for the device
    returns, or work begins that was launched after them.
    """
    rows = as_launched(ops, ops.compute | ops.read_back)
    requested = ops.launch_start[rows]
    ends = np.maximum.accumulate(ops.end[rows])
    ends_last = np.maximum.accumulate(np.where(ops.end[rows] == ends, np.arange(len(rows)), 0))
    begins = np.minimum.accumulate(ops.start[rows][::-1])[::-1]
    returns = returns[np.argsort(returns[:, 0], kind="stable")]
    returned = np.minimum.accumulate(returns[::-1, 1])[::-1]
    nothing = np.zeros(0, np.int64)
    for launched, end in lost.tolist():
        at, waited = np.searchsorted(requested, launched), np.searchsorted(returns[:, 0], launched)
        since = max(end, int(ends[at - 1])) if at else end
        until = int(begins[at]) if at < len(rows) else int(ops.end.max())
        until = min(until, int(returned[waited])) if waited < len(returned) else until
        if since < until:
            yield _PartialReplay(since, until, int(rows[ends_last[at - 1]]) if at else NO_ROW, nothing)


def _span(ops: DeviceOps, rows: Ints) -> int:
    return int(ops.end[rows].max() - ops.start[rows].min())


def _open_sides(names: Ints, usual: Ints) -> tuple[bool, bool]:
    """Return whether the beginning and whether the end of a replay is missing."""
    begins = np.array_equal(names, usual[: len(names)])
    return bool(names[0] != usual[0]), bool(begins or names[-1] != usual[-1])


def _neighbours(ops: DeviceOps, rows: Ints, by_stream: dict[int, Ints]) -> tuple[int, int]:
    """Return the end of the work before a replay and the start of the work after it, on the streams where it ran."""
    before, after = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for stream in np.unique(ops.stream[rows]).tolist():
        of_stream = by_stream[stream]
        at, until = np.searchsorted(of_stream, rows[0]), np.searchsorted(of_stream, rows[-1], side="right")
        if at > 0:
            before = max(before, int(ops.end[of_stream[at - 1]]))
        if until < len(of_stream):
            after = min(after, int(ops.start[of_stream[until]]))
    return int(before), int(after)


def _returned(returns: Ints, launched: int, until: int, missing: int) -> int:
    """Return when a replay was over at the latest, by the calls that waited for it; `until` is when it usually is."""
    at = int(np.searchsorted(returns[:, 1], until - JITTER_SHARE * missing))
    for start, end in returns[at:].tolist():
        if end >= until:
            break
        if start >= launched:
            return int(end)
    return until


def _without_work(ops: DeviceOps, stretches: list[_PartialReplay]) -> _Stretches:
    """Return when, in some replays, nothing ran that was recorded: none of their operations, and no compute at all."""
    works: Flags = ops.compute.copy()
    for stretch in stretches:
        works[stretch.ops] = True
    hidden = _merged(
        np.asarray([s.start for s in stretches], np.int64), np.asarray([s.end for s in stretches], np.int64)
    )
    seen = _merged(ops.start[works], ops.end[works])
    # Stretches between two that are seen, cut by those that are hidden.
    low = np.append(np.iinfo(np.int64).min, seen.end)
    high = np.append(seen.start, np.iinfo(np.int64).max)
    first = np.searchsorted(high, hidden.start, side="right")
    last = np.searchsorted(low, hidden.end, side="left")
    counts = np.maximum(last - first, 0)
    of = np.repeat(np.arange(len(counts)), counts)
    gap = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + first[of]
    return _Stretches(np.maximum(low[gap], hidden.start[of]), np.minimum(high[gap], hidden.end[of]))


def _merged(start: Ints, end: Ints) -> _Stretches:
    """Return the union of intervals."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] > end[:-1])[: len(start)])
    return _Stretches(start[first], end[np.append(first[1:] - 1, len(start) - 1)] if len(first) else end)
