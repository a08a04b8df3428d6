"""What GPU ops and the host had to wait for on a device: a stream's order, recorded waits, or the one op that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import BlockingCalls, waited_ops
from traceanalyzer.attribution.buckets import CODE, MESSAGE, TRANSFER, Flags, Ints
from traceanalyzer.attribution.device_ops import DeviceOps, as_launched
from traceanalyzer.attribution.recorded_waits import load_recorded_waits

# An op that starts this long after everything known was ready waited for something else.
UNEXPLAINED_NS = 5_000
# An op on another stream that ended this shortly before, or within this share of the wait, is what was waited for.
COINCIDENT_NS = 20_000
COINCIDENT_SHARE = 0.05
# Device-side time between two ops that follow each other.
GAP_NS = 1_000
_TRANSFER, _P2P = CODE[TRANSFER], CODE[MESSAGE]

# Calls that let a stream wait, and which one where that is told. Where it is told for which, too, nothing is open.
_ASKED_QUERY = """
SELECT call.start_ns, COALESCE(waits.stream, $none) AS stream
FROM canonical.host_slices AS call
LEFT JOIN canonical.syncs AS waits
  ON waits.trace_id = call.trace_id AND waits.correlation = call.correlation AND waits.kind = 'stream_wait'
WHERE call.trace_id = $trace_id
  AND call.category IN ('runtime', 'driver')
  AND CONTAINS(call.name, 'StreamWaitEvent')
  AND COALESCE(waits.device, $device) = $device
  AND NOT EXISTS (
    FROM canonical.syncs WHERE trace_id = $trace_id AND kind = 'stream_wait' AND wait_on_stream IS NOT NULL
  )
ORDER BY call.start_ns, call.slice_id
"""

# Rows of ops, and of an op that each of them waited for: one pair a column.
Pairs = tuple[Ints, Ints]


@dataclass(frozen=True)
class Dependencies:
    """For each op, and each waiting call, the rows of ops that it had to wait for; NO_ROW for none."""

    stream: Ints  # the one before it in its stream
    other: Ints  # of those of other streams, the one that it waited for longest
    more: Pairs  # each op and one of further streams, done before `other`: hidden behind it as things are
    other_is_recorded: Flags  # else it only fits
    possible: Pairs  # each op and one of another stream that it may have waited for, too: which stream was not recorded
    of_calls: Ints  # for each call of the host that waits, the op that it waited for last


def stream_predecessors(ops: DeviceOps) -> Ints:
    """Return for each op the one before it in its stream."""
    before = np.full(ops.count, NO_ROW)
    order = np.argsort(ops.stream, kind="stable")
    same = ops.stream[order][1:] == ops.stream[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _coincident(ops: DeviceOps, stream: Ints, other: Ints) -> None:
    """Fill in the op of another stream that ended just before an op whose start nothing recorded explains."""
    lowest = np.iinfo(np.int64).min
    ready = np.where(ops.linked, ops.launch_end, lowest)
    for before in (stream, other):
        ready = np.maximum(ready, np.where(before == NO_ROW, lowest, ops.end[before]))
    # Of an op whose launch is not in the trace at least the one before it in its stream must be.
    asked = ops.linked | (stream != NO_ROW)
    late = np.flatnonzero(asked & (ops.start - np.where(asked, ready, ops.start) > UNEXPLAINED_NS) & (other == NO_ROW))
    by_end = np.argsort(ops.end, kind="stable")
    ends = ops.end[by_end]
    near_ns = np.maximum(COINCIDENT_NS, (ops.start[late] - ready[late]) * COINCIDENT_SHARE).astype(np.int64)
    low = np.searchsorted(ends, ops.start[late] - near_ns, side="right")
    high = np.searchsorted(ends, ops.start[late], side="right")
    for row, first, last in zip(late.tolist(), low.tolist(), high.tolist(), strict=True):
        near = by_end[first:last]
        earlier = ops.launch_start[near] < ops.launch_start[row]
        if not ops.linked[row]:
            earlier = ~ops.linked[near] & (ops.start[near] < ops.start[row])
        fits = near[(ops.stream[near] != ops.stream[row]) & earlier & (ops.end[near] > ready[row])]
        if len(fits):
            other[row] = fits[-1]


def _collective_inputs(ops: DeviceOps, other: Ints) -> None:
    """Fill in the work of a computing stream that collectives without a known wait had been issued after.

    PyTorch lets the stream of every collective wait for the stream that issues it (ProcessGroupNCCL's syncStream), for
    its copies as for its kernels. Parameters are gathered from a stream of their own, on which nothing else may run:
    what an all-gather waits for stays open.
    """
    comm = (ops.producer == _TRANSFER) | (ops.producer == _P2P)
    computes = np.isin(ops.stream, np.unique(ops.stream[ops.compute]))
    launched = as_launched(ops, computes & ~comm)
    rows = np.flatnonzero(comm & ~ops.gathers & ops.linked & (other == NO_ROW))
    at = np.searchsorted(ops.launch_start[launched], ops.launch_start[rows]) - 1
    rows, before = rows[at >= 0], launched[at[at >= 0]]
    fits = (ops.stream[before] != ops.stream[rows]) & (ops.end[before] <= ops.start[rows])
    other[rows[fits]] = before[fits]


def _results_of_steps(ops: DeviceOps, begins: Sequence[tuple[int, int]], other: Ints) -> dict[int, list[int]]:
    """Return what each step first asks of its stream, a copy or a kernel, with the collective of the step before it.

    What a step reduces or gathers, the next one computes with: where the host is so late that the collective had long
    been done, no wait is to be seen, and yet the host could not be ahead of it. Collectives that the step began before
    are not waited for.
    """
    comm = as_launched(ops, ops.producer == _TRANSFER)
    launch = ops.launch_start[comm]
    starts = [start for _, start in begins]
    firsts: dict[int, Ints] = {}
    for stream in np.unique(ops.stream[[row for row, _ in begins]]).tolist() if begins else ():
        mine = as_launched(ops, ops.stream == stream)
        firsts[stream] = mine[np.minimum(np.searchsorted(ops.launch_start[mine], starts), len(mine) - 1)]
    since = np.searchsorted(launch, starts)
    found = {}
    for i in range(1, len(begins)):
        row = firsts[int(ops.stream[begins[i][0]])][i]
        issued = comm[since[i - 1] : since[i]]
        issued = issued[(ops.stream[issued] != ops.stream[row]) & (issued != other[row])]
        if len(issued):
            last = issued[np.argmax(ops.end[issued])]
            if ops.end[last] <= ops.start[row]:
                found[int(row)] = [int(last)]
    return found


def _possible_waits(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> Pairs:
    """Return what ops may have waited for that were launched next after calls that let some stream wait for another.

    Where it is not told which stream waits, those wait that are launched to next, as many as calls were made; of every
    other one, it may be for the last op that was launched before the call and was done when the waiting op began.
    """
    told = con.execute(_ASKED_QUERY, {"trace_id": trace_id, "device": ops.device, "none": NO_ROW}).fetchall()
    asked, waiting = np.asarray(told, np.int64).reshape(-1, 2).T
    streams = np.unique(ops.stream)
    if not len(asked) or len(streams) < 2:
        return _pairs({})
    found = [_launched_next(ops, asked[waiting == NO_ROW])]
    for stream in np.unique(waiting[waiting != NO_ROW]).tolist():
        mine = as_launched(ops, ops.stream == stream)
        call = np.searchsorted(asked[waiting == stream], ops.launch_start[mine], side="right") - 1
        first = np.flatnonzero(np.diff(call, prepend=NO_ROW) > 0)
        found.append((mine[first], asked[waiting == stream][call[first]]))
    rows, since = (np.concatenate(part) for part in zip(*found, strict=True))
    pairs = []
    for stream in streams.tolist():
        others = as_launched(ops, ops.stream == stream)
        issued = np.searchsorted(ops.launch_start[others], since)
        done = np.searchsorted(np.maximum.accumulate(ops.end[others]), ops.start[rows], side="right")
        last = np.where(ops.stream[rows] == stream, 0, np.minimum(issued, done)) - 1
        pairs.append((rows[last >= 0], others[last[last >= 0]]))
    row, op = (np.concatenate(part) for part in zip(*pairs, strict=True))
    order = np.argsort(row, kind="stable")
    return row[order], op[order]


def _launched_next(ops: DeviceOps, asked: Ints) -> Pairs:
    """Return the first op of each stream that is launched to after calls, and the last such call before it.

    Calls with no launch in between are for as many streams as there are such calls.
    """
    launched = as_launched(ops, np.ones(ops.count, np.bool_))
    streams, stream_of = np.unique(ops.stream[launched], return_inverse=True)
    call = np.searchsorted(asked, ops.launch_start[launched]) - 1  # the last one before each launch
    _, first = np.unique(call * len(streams) + stream_of, return_index=True)
    first = np.sort(first[call[first] != NO_ROW])
    nth = np.arange(len(first)) - np.searchsorted(call[first], call[first])
    calls = call - np.concatenate([[NO_ROW], call])[np.searchsorted(call, call)]
    first = first[nth < calls[first]]
    return launched[first], asked[call[first]]


def find_dependencies(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    ops: DeviceOps,
    calls: BlockingCalls,
    begins: Sequence[tuple[int, int]] = (),
) -> Dependencies:
    """Return what each op of a device, and each call of the host, had to wait for there.

    `begins` are the steps in order: the row of the op with which each begins, and when it begins on the host.
    """
    stream = stream_predecessors(ops)
    other = np.full(ops.count, NO_ROW)
    waits = load_recorded_waits(con, trace_id, ops)
    # Of each stream one op, the latest first.
    awaited = {row: sorted(found.values(), key=lambda op: (-ops.end[op], op)) for row, found in waits.awaited.items()}
    other[list(awaited)] = [found[0] for found in awaited.values()]
    recorded = other != NO_ROW
    _coincident(ops, stream, other)
    more = {row: found[1:] for row, found in awaited.items()}
    if not waits.are_there:  # where they were recorded nothing has to be assumed
        _collective_inputs(ops, other)
        more = _results_of_steps(ops, begins, other)
    of_calls = waited_ops(calls, ops, waits)
    return Dependencies(stream, other, _pairs(more), recorded, _possible_waits(con, trace_id, ops), of_calls)


def _pairs(awaited: Mapping[int, Sequence[int]]) -> Pairs:
    pairs = [(row, op) for row, found in sorted(awaited.items()) for op in found]
    row, op = np.asarray(pairs, np.int64).reshape(-1, 2).T
    return row, op
