"""Which cause each instant of an issuing thread belongs to: the innermost slice that says something."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import BlockingCalls
from traceanalyzer.attribution.buckets import (
    HOST_CODE,
    Codes,
    Flags,
    Ints,
)
from traceanalyzer.attribution.graph_captures import find_captures
from traceanalyzer.attribution.host_slices import HostSlices
from traceanalyzer.attribution.host_states import (
    AUTOGRAD,
    NEUTRAL,
    PREPROCESS_CODE,
    STICKY,
    OwnNames,
    is_api,
    is_os,
    overhead_state,
    slice_state,
    unrecorded_state,
)

# An operator shorter than this that reaches no device is bookkeeping (a view, an allocation), not preprocessing.
PREPROCESS_MIN_NS = 100_000
# Times of integer microseconds.
STANDSTILL_ERROR_NS = 1_000

_OVERHEADS = """
SELECT start_ns, start_ns + dur_ns AS end_ns, name
FROM canonical.host_slices
WHERE trace_id = $trace_id AND category = 'overhead'
ORDER BY start_ns, slice_id
"""

Overhead = tuple[int, int, int]


@dataclass(frozen=True)
class Nesting:
    """What each slice of some threads says, and the one around it."""

    parent: Ints
    state: Codes

    def around(self, rows: Ints) -> Ints:
        """Return the innermost slice around each row that says the same; NO_ROW where none does."""
        above = self.parent[rows].copy()
        skip = np.arange(len(rows))
        while True:
            at = above[skip]
            skip = skip[(at != NO_ROW) & (self.state[at] != self.state[rows[skip]])]
            if not len(skip):
                return above
            above[skip] = self.parent[above[skip]]


@dataclass(frozen=True)
class Timeline:
    """One thread cut into pieces, each from its start to the next one's; the last one lasts."""

    start: Ints
    state: Codes
    row: Ints  # slice that is to blame; NO_ROW: nothing is recorded
    unrecorded: int  # state before the first piece, and wherever nothing is recorded
    event_start: Ints  # starts of the thread's slices, ascending, but for those of the operating system: it waits there
    nesting: Nesting  # of all threads' slices


def _open_above(slices: HostSlices, painted: Flags, rows: Ints, after: Ints) -> Ints:
    """Return the innermost painted ancestor of each row that is still open after an instant."""
    above = slices.parent[rows].copy()
    skip = np.arange(len(rows))
    while True:
        at = above[skip]
        skip = skip[(at != NO_ROW) & (~painted[at] | (slices.end[at] <= after[skip]))]
        if not len(skip):
            return above
        above[skip] = slices.parent[above[skip]]


def _outlasted(slices: HostSlices, painted: Flags) -> Flags:
    """Return which slices end while one that began inside them goes on: rounding, and ranges that cross frames."""
    outlasted = np.zeros(slices.count, np.bool_)
    rows = np.flatnonzero(painted)
    above = _open_above(slices, painted, rows, slices.start[rows])
    crossing = (above != NO_ROW) & (slices.end[rows] > slices.end[above])
    rows, above = rows[crossing], above[crossing]
    while len(rows):
        outlasted[above[slices.end[above] < slices.end[rows]]] = True
        # The next one around, as seen from the slice that crosses.
        further = _open_above(slices, painted, above, slices.start[rows])
        rows, above = rows[further != NO_ROW], further[further != NO_ROW]
    return outlasted


def _inside(slices: HostSlices, rows: Ints) -> tuple[Ints, Ints]:
    """Return the range of rows that start within each of some slices, themselves left out."""
    order_key = slices.thread
    low = rows + 1
    high = np.empty_like(rows)
    for thread in np.unique(order_key[rows]).tolist():
        first, last = np.searchsorted(order_key, [thread, thread + 1])
        mine = order_key[rows] == thread
        high[mine] = first + np.searchsorted(slices.start[first:last], slices.end[rows[mine]], side="left")
    return low, np.maximum(high, low)


def slice_states(slices: HostSlices, blocking: BlockingCalls, names: OwnNames = ()) -> Codes:
    """Return what each slice says its thread was doing, NEUTRAL where nothing of its own."""
    by_name = [slice_state(c, n, names) for c, n in zip(slices.categories, slices.names, strict=True)]
    if not slices.count:
        return np.zeros(0, np.int8)
    own = np.asarray(by_name, dtype=np.int8)[slices.name_code]
    whole = blocking.start == slices.start[blocking.row]
    own[blocking.row[whole]] = blocking.cause[whole]
    _mark_preprocessing(slices, own)
    of_os = slices.flags([is_os(c) for c in slices.categories])
    _quiet_os_calls(slices, own, of_os)
    states = own.copy()
    plain = [HOST_CODE[name] for name in ("host.op", "host.python", "host.launch_api")]
    gives_way = of_os | np.isin(own, [NEUTRAL, PREPROCESS_CODE, *plain])
    sticky = np.flatnonzero(np.isin(own, [*STICKY, PREPROCESS_CODE]))
    low, high = _inside(slices, sticky)
    # Outer ranges come first, so inner ones win.
    for row, first, last in zip(sticky.tolist(), low.tolist(), high.tolist(), strict=True):
        # Preprocessing inside the loader is the loader's.
        if last > first and states[row] == own[row]:
            part = states[first:last]
            part[gives_way[first:last]] = own[row]
    return states


def _mark_preprocessing(slices: HostSlices, own: Codes) -> None:
    operator = slices.flags([c == "cpu_op" for c in slices.categories])
    rows = np.flatnonzero(
        operator
        & (slices.op_id == NO_ROW)
        & (own == HOST_CODE["host.op"])
        & (slices.end - slices.start >= PREPROCESS_MIN_NS)
    )
    calls = np.concatenate([[0], np.cumsum(slices.flags([is_api(c) for c in slices.categories]))])
    low, high = _inside(slices, rows)
    own[rows[calls[high] == calls[low]]] = PREPROCESS_CODE


def _quiet_os_calls(slices: HostSlices, own: Codes, of_os: Flags) -> None:
    """Let calls of the operating system say nothing inside a call that says why: one to the device, or one of them."""
    says_why = slices.flags([is_api(c) for c in slices.categories]) | (of_os & (own != NEUTRAL))
    rows = np.flatnonzero(of_os & (own != NEUTRAL))
    above = slices.parent[rows]
    while len(rows):
        rows, above = rows[above != NO_ROW], above[above != NO_ROW]
        own[rows[says_why[above]]] = NEUTRAL
        rows, above = rows[~says_why[above]], slices.parent[above[~says_why[above]]]


@dataclass(frozen=True)
class _Edges:
    """Instants at which another slice becomes the innermost one."""

    thread: Ints
    time: Ints
    rank: Ints  # order among those of one instant: ends before starts, inner ends and outer starts first
    state: Codes
    row: Ints


def _unrecorded(slices: HostSlices, thread: int) -> int:
    first, last = np.searchsorted(slices.thread, [thread, thread + 1])
    codes = np.flatnonzero(np.bincount(slices.name_code[first:last])).tolist()
    return unrecorded_state(
        frozenset(slices.categories[code] for code in codes), any(AUTOGRAD.search(slices.names[code]) for code in codes)
    )


def _edges(slices: HostSlices, states: Codes, blocking: BlockingCalls) -> _Edges:
    painted = (states != NEUTRAL) & (slices.end > slices.start)
    rows = np.flatnonzero(painted)
    ending = np.flatnonzero(painted & ~_outlasted(slices, painted))
    up = _open_above(slices, painted, ending, slices.end[ending])
    deepest = int(slices.depth.max(initial=0)) + 1
    # A launch that waits changes what it does on its way.
    late = np.flatnonzero((blocking.start > slices.start[blocking.row]) & (blocking.end > blocking.start))
    waits = blocking.row[late]
    return _Edges(
        thread=np.concatenate([slices.thread[rows], slices.thread[ending], blocking.thread[late]]),
        time=np.concatenate([slices.start[rows], slices.end[ending], blocking.start[late]]),
        rank=np.concatenate(
            [deepest + slices.depth[rows], deepest - 1 - slices.depth[ending], deepest + 1 + slices.depth[waits]]
        ),
        state=np.concatenate([states[rows], np.where(up == NO_ROW, NEUTRAL, states[up]), blocking.cause[late]]).astype(
            np.int8
        ),
        row=np.concatenate([rows, up, waits]),
    )


def paint(
    slices: HostSlices, blocking: BlockingCalls, overheads: Sequence[Overhead], names: OwnNames = ()
) -> dict[int, Timeline]:
    """Return the timeline of each thread; `names` are what a project calls things."""
    states = slice_states(slices, blocking, names)
    nesting = Nesting(slices.parent, states)
    edges = _edges(slices, states, blocking)
    captures = find_captures(slices, states)
    of_os = slices.flags([is_os(c) for c in slices.categories])
    timelines = {}
    for thread in slices.threads:
        mine = np.flatnonzero(edges.thread == thread)
        time = edges.time[mine]
        origin = int(time.min(initial=np.iinfo(np.int64).max))
        # One key sorts faster than two: the ranks of one instant fit below the bits of the time.
        width = int(edges.rank.max(initial=0)).bit_length()
        order = mine[np.argsort(((time - origin) << width) | edges.rank[mine], kind="stable")]
        time = edges.time[order]
        if len(time):
            order = order[np.append(time[1:] != time[:-1], True)]
        first, last = np.searchsorted(slices.thread, [thread, thread + 1])
        unrecorded = _unrecorded(slices, thread)
        state = np.where(edges.state[order] == NEUTRAL, unrecorded, edges.state[order]).astype(np.int8)
        events = slices.start[first:last][~of_os[first:last]]
        pieces = captures.of_thread(thread).paint(edges.time[order], state, edges.row[order], unrecorded)
        timelines[thread] = _lay_over(Timeline(*pieces, unrecorded, events, nesting), overheads)
    return timelines


def _lay_over(timeline: Timeline, overheads: Sequence[Overhead]) -> Timeline:
    """Lay the overhead track over a thread wherever the thread stood still: elsewhere another thread did that work."""
    told = [o for o in overheads if o[2] != NEUTRAL and o[1] - o[0] > 2 * STANDSTILL_ERROR_NS]
    low, high = (np.asarray([o[side] for o in told], np.int64) for side in (0, 1))
    begun, ended = (
        np.searchsorted(timeline.start, at) for at in (low + STANDSTILL_ERROR_NS, high - STANDSTILL_ERROR_NS)
    )
    still = np.flatnonzero(begun == ended).tolist()
    if not still:
        return timeline
    # With one piece more on either side, whose values go on.
    first = np.maximum(np.searchsorted(timeline.start, low, side="right") - 1, 0).tolist()
    last = np.minimum(np.searchsorted(timeline.start, high) + 1, len(timeline.start)).tolist()
    columns: tuple[NDArray[Any], ...] = (timeline.start, timeline.state, timeline.row)
    parts: list[list[NDArray[Any]]] = []
    done = 0
    while still:
        # Those that touch the same pieces together.
        count, until = 1, last[still[0]]
        while count < len(still) and first[still[count]] <= until:
            until = max(until, last[still[count]])
            count += 1
        since = max(done, first[still[0]])
        parts.append([column[done:since] for column in columns])
        start, state, row = (column[since:until].tolist() for column in columns)
        for at in still[:count]:
            _lay_one(start, state, row, timeline.unrecorded, told[at])
        changed = zip((start, state, row), columns, strict=True)
        parts.append([np.asarray(values, column.dtype) for values, column in changed])
        done, still = until, still[count:]
    parts.append([column[done:] for column in columns])
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return replace(timeline, start=whole[0], state=whole[1], row=whole[2])


def _lay_one(start: list[int], state: list[int], row: list[int], unrecorded: int, overhead: Overhead) -> None:
    """Put an overhead between pieces, in place."""
    low, high, code = overhead
    at, after = bisect_right(start, low), bisect_left(start, high)
    covering = (state[after - 1], row[after - 1]) if after else (unrecorded, NO_ROW)
    blame = row[at - 1] if at else NO_ROW
    resumes = after == len(start) or start[after] != high
    start[at:after] = [low, high] if resumes else [low]
    state[at:after] = [code, covering[0]] if resumes else [code]
    row[at:after] = [blame, covering[1]] if resumes else [blame]


def load_overheads(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[Overhead]:
    """Read the profiler's and the driver's own work of a trace: start, end, and what it counts as."""
    rows = con.execute(_OVERHEADS, {"trace_id": trace_id}).fetchall()
    return [(start, end, overhead_state(name or "")) for start, end, name in rows]
