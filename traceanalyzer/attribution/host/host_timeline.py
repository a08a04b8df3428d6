"""The cause of each instant of an issuing thread: the state of its innermost slice that has one.

A capture of a CUDA graph lasts from its beginning until the graph is ready to be launched.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import HOST_CODE, LAUNCH_CODE, LIGHT_CODES, NO_ROW, Codes, Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import BlockingCalls
from traceanalyzer.attribution.host.host_states import (
    AUTOGRAD,
    NEUTRAL,
    PREPROCESS_CODE,
    STICKY,
    inside_nodes,
    is_api,
    is_os,
    overhead_state,
    runs_backward,
    slice_state,
    unrecorded_of,
)
from traceanalyzer.attribution.records.host_slices import Around, HostSlices, nearest_above

_BEGIN = re.compile(r"StreamBeginCapture")
_END = re.compile(r"StreamEndCapture")
_READY = re.compile(r"Graph(Instantiate|ExecUpdate)")
_COMPILE = HOST_CODE["host.compile"]
# States that give way to the capture; calls with a cost of their own, such as allocations, keep their state.
_GIVES_WAY = (*LIGHT_CODES, PREPROCESS_CODE)


class Captures(Struct, frozen=True):
    """Captures in the order of threads and time; `row` is the call that ends each."""

    thread: Ints
    start: Ints
    end: Ints
    row: Ints

    def of_thread(self, thread: int) -> Captures:
        on_thread = self.thread == thread
        return Captures(self.thread[on_thread], self.start[on_thread], self.end[on_thread], self.row[on_thread])

    def overlay(self, start: Ints, state: Codes, row: Ints, unrecorded: int) -> tuple[Ints, Codes, Ints]:
        """Return the pieces of a thread, each from its start to the next one's, with captured work as host.compile."""
        return overlay(self, _COMPILE, _GIVES_WAY, start, np.append(state, np.int8(unrecorded)), np.append(row, NO_ROW))


def overlay(
    spans: Captures, code: int, gives_way: Sequence[int], start: Ints, state: Codes, row: Ints
) -> tuple[Ints, Codes, Ints]:
    """Return pieces with spans over those states that give way; the last state and row are those before all pieces."""
    if not len(spans.row):
        return start, state[:-1], row[:-1]
    cuts = np.unique(np.concatenate([start, spans.start, spans.end]))
    at = np.searchsorted(start, cuts, side="right") - 1
    state, row = state[at], row[at]
    span = np.searchsorted(spans.start, cuts, side="right") - 1
    inside = (span >= 0) & (cuts < spans.end[span]) & np.isin(state, gives_way)
    return cuts, np.where(inside, code, state).astype(np.int8), np.where(inside, spans.row[span], row)


def find_captures(slices: HostSlices, states: Codes) -> Captures:
    """Return the captures in some threads' slices; `states` holds the state of each slice."""
    calls = [name if is_api(category) else "" for category, name in zip(slices.categories, slices.names, strict=True)]
    begins, ends, readies = (
        slices.flags([bool(pattern.search(name)) for name in calls]) for pattern in (_BEGIN, _END, _READY)
    )
    launches = np.cumsum(states == LAUNCH_CODE)
    captures: list[tuple[int, int, int, int]] = []
    begun, last = NO_ROW, NO_ROW
    for row in np.flatnonzero(begins | ends | readies).tolist():
        if begins[row]:
            begun = row
        elif ends[row] and begun != NO_ROW and slices.thread[begun] == slices.thread[row]:
            captures.append((int(slices.thread[row]), int(slices.start[begun]), int(slices.end[row]), row))
            begun, last = NO_ROW, row
        # A graph may also become ready much later, after other work.
        elif (
            readies[row]
            and last != NO_ROW
            and captures[-1][0] == slices.thread[row]
            and launches[row] == launches[last]
        ):
            captures[-1] = (captures[-1][0], captures[-1][1], int(slices.end[row]), row)
    columns = np.asarray(captures, np.int64).reshape(-1, 4)
    return Captures(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3])


# An operator shorter than this that reaches no device is bookkeeping (a view, an allocation), not preprocessing.
PREPROCESS_MIN_NS = 100_000
# Recorded times are integer microseconds.
STANDSTILL_ERROR_NS = 1_000

_OVERHEADS = """
SELECT start_ns, start_ns + dur_ns AS end_ns, name
FROM canonical.host_slices
WHERE trace_id = $trace_id AND category = 'overhead'
ORDER BY start_ns, slice_id
"""

Overhead = tuple[int, int, int]
# Calls of a program nest less deeply; ranges that each step opens and none closes nest more deeply.
_DEEP = 1_000


class Nesting(Struct, frozen=True):
    """The state of each slice of some threads, and what is around it."""

    parent: Ints
    depth: Ints
    state: Codes

    def around(self, rows: Ints) -> Callable[[Ints], Ints]:
        """Return a function from rows to the innermost slice around each that has its state; NO_ROW: none has.

        It takes these rows and those that it returns. Climbing is fastest, except where nesting is deep.
        """
        if self.depth[rows].max(initial=0) < _DEEP:
            return self._climb
        found = np.full(len(self.parent), NO_ROW)
        for code in np.unique(self.state[rows]):
            same = self.state == code
            found[same] = nearest_above(self.parent, same)[same]
        return found.__getitem__

    def _climb(self, rows: Ints) -> Ints:
        above = self.parent[rows].copy()
        skip = np.arange(len(rows))
        while True:
            at = above[skip]
            skip = skip[(at != NO_ROW) & (self.state[at] != self.state[rows[skip]])]
            if not len(skip):
                return above
            above[skip] = self.parent[above[skip]]


class Timeline(Struct, frozen=True):
    """One thread cut into pieces, each from its start to the next one's start; the last piece has no end."""

    start: Ints
    state: Codes
    row: Ints  # slice to blame; NO_ROW: nothing is recorded
    unrecorded: int  # state before the first piece, and wherever nothing is recorded
    event_start: Ints  # starts of the thread's slices, ascending; without calls of the operating system, which wait
    nesting: Nesting  # of all threads' slices


def _outlasted(slices: HostSlices, has_state: Flags, around: Around) -> Flags:
    """Return which slices end before a slice that began inside them: rounding, and ranges that cross frames."""
    outlasted = np.zeros(slices.count, np.bool_)
    rows = np.flatnonzero(has_state)
    above = around.open_after(rows, slices.start[rows])
    crossing = (above != NO_ROW) & (slices.end[rows] > slices.end[above])
    rows, above = rows[crossing], above[crossing]
    while len(rows):
        outlasted[above[slices.end[above] < slices.end[rows]]] = True
        # The next slice around, as seen from the slice that crosses.
        further = around.open_after(above, slices.start[rows])
        rows, above = rows[further != NO_ROW], further[further != NO_ROW]
    return outlasted


def _inside(slices: HostSlices, rows: Ints) -> tuple[Ints, Ints]:
    """Return for some slices the range of rows that start within each, without the slice itself."""
    order_key = slices.thread
    low = rows + 1
    high = np.empty_like(rows)
    for thread in np.unique(order_key[rows]).tolist():
        first, last = np.searchsorted(order_key, [thread, thread + 1])
        on_thread = order_key[rows] == thread
        high[on_thread] = first + np.searchsorted(slices.start[first:last], slices.end[rows[on_thread]], side="left")
    return low, np.maximum(high, low)


def slice_states(slices: HostSlices, blocking: BlockingCalls, own_names: Sequence[int] | None = None) -> Codes:
    """Return the state of each slice; NEUTRAL: it has none of its own."""
    states_said = own_names or [NEUTRAL] * len(slices.names)
    by_name = [slice_state(*parts) for parts in zip(slices.categories, slices.names, states_said, strict=True)]
    if not slices.count:
        return np.zeros(0, np.int8)
    own = np.asarray(by_name, dtype=np.int8)[slices.name_code]
    whole = blocking.start == slices.start[blocking.row]
    own[blocking.row[whole]] = blocking.cause[whole]
    own[_never_ended(slices) & np.isin(own, [*STICKY])] = HOST_CODE["host.python"]
    _mark_preprocessing(slices, own)
    of_os = slices.flags([is_os(c) for c in slices.categories])
    _quiet_os_calls(slices, own, of_os)
    states = own.copy()
    plain = [HOST_CODE[name] for name in ("host.op", "host.python", "host.launch_api")]
    gives_way = of_os | np.isin(own, [NEUTRAL, PREPROCESS_CODE, *plain])
    sticky = np.flatnonzero(np.isin(own, [*STICKY, PREPROCESS_CODE]))
    low, high = _inside(slices, sticky)
    # Outer ranges come first, so inner ranges overwrite them.
    for row, first, last in zip(sticky.tolist(), low.tolist(), high.tolist(), strict=True):
        # Preprocessing inside the loader counts to the loader.
        if last > first and states[row] == own[row]:
            part = states[first:last]
            part[gives_way[first:last]] = own[row]
    return states


def _never_ended(slices: HostSlices) -> Flags:
    """Return the Python frames that end when the recording does, as what called them: they may have ended before.

    What is left open has in it all that its thread did later. A frame in which nothing happens lasted as long.
    """
    frames = np.flatnonzero(slices.flags([c == "python" for c in slices.categories]) & (slices.parent != NO_ROW))
    frames = frames[slices.end[frames] + STANDSTILL_ERROR_NS >= slices.end[slices.parent[frames]]]
    calls = np.zeros(slices.count, np.bool_)
    calls[slices.parent[slices.parent != NO_ROW]] = True
    frames = frames[calls[frames]]
    found = np.zeros(slices.count, np.bool_)
    found[frames[slices.end[frames] + STANDSTILL_ERROR_NS >= slices.end[frames].max(initial=0)]] = True
    return found


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
    """Clear the state of operating system calls inside a call that explains them: to the device or the system."""
    says_why = slices.flags([is_api(c) for c in slices.categories]) | (of_os & (own != NEUTRAL))
    rows = np.flatnonzero(of_os & (own != NEUTRAL))
    if len(rows):
        own[rows[nearest_above(slices.parent, says_why)[rows] != NO_ROW]] = NEUTRAL


class _Edges(Struct, frozen=True):
    """Instants at which another slice becomes the innermost."""

    thread: NDArray[np.int32]
    time: Ints
    rank: NDArray[np.int32]  # order within one instant: ends before starts, inner ends first, outer starts first
    state: Codes
    row: Ints


def _overlay_nodes(timelines: dict[int, Timeline], slices: HostSlices, nodes: Flags, backward: Sequence[int]) -> None:
    """Give the nodes that another thread computes on the CPU to the backward thread that waits for them, in place."""
    for waiting in backward:
        for thread in timelines.keys() - {*backward}:
            other = timelines[thread]
            first, last = np.searchsorted(slices.thread, [thread, thread + 1])
            inside = np.append(inside_nodes(slices, nodes, first, last), False)
            own = (other.row >= first) & (other.row < last) & (other.state == PREPROCESS_CODE)
            at = np.flatnonzero(own[:-1] & inside[np.where(own, other.row - first, -1)[:-1]])
            spans = Captures(slices.thread[other.row[at]], other.start[at], other.start[at + 1], other.row[at])
            line = timelines[waiting]
            state, row = np.append(line.state, np.int8(line.unrecorded)), np.append(line.row, NO_ROW)
            # What is recorded there stays: no state of its own is NEUTRAL here.
            state = np.where(row == NO_ROW, np.int8(NEUTRAL), state)
            start, state, row = overlay(spans, PREPROCESS_CODE, (NEUTRAL,), line.start, state, row)
            state = np.where(state == NEUTRAL, line.unrecorded, state).astype(np.int8)
            timelines[waiting] = replace(line, start=start, state=state, row=row)


def _edges(slices: HostSlices, states: Codes, blocking: BlockingCalls) -> _Edges:
    has_state = (states != NEUTRAL) & (slices.end > slices.start)
    rows = np.flatnonzero(has_state)
    around = slices.around(has_state)
    ending = np.flatnonzero(has_state & ~_outlasted(slices, has_state, around))
    up = around.open_after(ending, slices.end[ending])
    deepest = int(slices.depth.max(initial=0)) + 1
    # A launch that waits changes its state on the way.
    late = np.flatnonzero((blocking.start > slices.start[blocking.row]) & (blocking.end > blocking.start))
    waits = blocking.row[late]
    return _Edges(
        thread=np.concatenate([slices.thread[rows], slices.thread[ending], blocking.thread[late]], dtype=np.int32),
        time=np.concatenate([slices.start[rows], slices.end[ending], blocking.start[late]]),
        rank=np.concatenate(
            [deepest + slices.depth[rows], deepest - 1 - slices.depth[ending], deepest + 1 + slices.depth[waits]],
            dtype=np.int32,
        ),
        state=np.concatenate([states[rows], np.where(up == NO_ROW, NEUTRAL, states[up]), blocking.cause[late]]).astype(
            np.int8
        ),
        row=np.concatenate([rows, up, waits]),
    )


def _in_order(edges: _Edges, rows: Ints) -> Ints:
    """Return rows of edges by time and rank. Large arrays are changed in place: fresh memory costs time."""
    key = edges.time[rows]
    key -= int(key.min(initial=np.iinfo(np.int64).max))
    # One key sorts faster than two: the ranks of one instant fit below the bits of the time.
    key <<= int(edges.rank.max(initial=0)).bit_length()
    key |= edges.rank[rows]
    ordered: Ints = rows[np.argsort(key, kind="stable")]
    return ordered


def build_timelines(
    slices: HostSlices, blocking: BlockingCalls, overheads: Sequence[Overhead], own_names: Sequence[int] | None = None
) -> dict[int, Timeline]:
    """Return the timeline of each thread; `own_names` has for each name what the project says of it (`own_states`)."""
    states = slice_states(slices, blocking, own_names)
    nesting = Nesting(slices.parent, slices.depth, states)
    edges = _edges(slices, states, blocking)
    captures = find_captures(slices, states)
    of_os = slices.flags([is_os(c) for c in slices.categories])
    nodes = slices.flags([bool(AUTOGRAD.search(name)) for name in slices.names])
    backward = []
    timelines: dict[int, Timeline] = {}
    for thread in slices.threads:
        order = _in_order(edges, np.flatnonzero(edges.thread == thread))
        time = edges.time[order]
        if len(time):
            order = order[np.append(time[1:] != time[:-1], True)]
        first, last = np.searchsorted(slices.thread, [thread, thread + 1])
        if runs_backward(slices, nodes, first, last):
            backward.append(thread)
        unrecorded = unrecorded_of(slices, thread, is_backward=thread in backward)
        state = np.where(edges.state[order] == NEUTRAL, unrecorded, edges.state[order]).astype(np.int8)
        events = slices.start[first:last][~of_os[first:last]]
        pieces = captures.of_thread(thread).overlay(edges.time[order], state, edges.row[order], unrecorded)
        timelines[thread] = overlay_overheads(Timeline(*pieces, unrecorded, events, nesting), overheads)
    _overlay_nodes(timelines, slices, nodes, backward)
    return timelines


def overlay_overheads(timeline: Timeline, overheads: Sequence[Overhead]) -> Timeline:
    """Overlay the overhead track where the thread stood still: elsewhere another thread did that work."""
    known = [o for o in overheads if o[2] != NEUTRAL and o[1] - o[0] > 2 * STANDSTILL_ERROR_NS]
    low, high = (np.asarray([o[side] for o in known], np.int64) for side in (0, 1))
    begun, ended = (
        np.searchsorted(timeline.start, at) for at in (low + STANDSTILL_ERROR_NS, high - STANDSTILL_ERROR_NS)
    )
    still = np.flatnonzero(begun == ended).tolist()
    if not still:
        return timeline
    # With one more piece on either side, whose values continue.
    first = np.maximum(np.searchsorted(timeline.start, low, side="right") - 1, 0).tolist()
    last = np.minimum(np.searchsorted(timeline.start, high) + 1, len(timeline.start)).tolist()
    columns: tuple[NDArray[Any], ...] = (timeline.start, timeline.state, timeline.row)
    parts: list[list[NDArray[Any]]] = []
    done = 0
    while still:
        # Overheads that touch the same pieces are overlaid together.
        count, until = 1, last[still[0]]
        while count < len(still) and first[still[count]] <= until:
            until = max(until, last[still[count]])
            count += 1
        since = max(done, first[still[0]])
        parts.append([column[done:since] for column in columns])
        start, state, row = (column[since:until].tolist() for column in columns)
        for at in still[:count]:
            _overlay_one(start, state, row, timeline.unrecorded, known[at])
        changed = zip((start, state, row), columns, strict=True)
        parts.append([np.asarray(values, column.dtype) for values, column in changed])
        done, still = until, still[count:]
    parts.append([column[done:] for column in columns])
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return replace(timeline, start=whole[0], state=whole[1], row=whole[2])


def _overlay_one(start: list[int], state: list[int], row: list[int], unrecorded: int, overhead: Overhead) -> None:
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
    """Read the profiler's and the driver's own work of a trace: start, end and state."""
    rows = con.execute(_OVERHEADS, {"trace_id": trace_id}).fetchall()
    return [(start, end, overhead_state(name or "")) for start, end, name in rows]
