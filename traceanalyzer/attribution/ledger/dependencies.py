"""The ops that GPU ops and host calls had to wait for: by stream order, recorded waits, or the only op that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import CODE, MESSAGE, NO_ROW, TRANSFER, Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import API_MIN_NS, BlockingCalls
from traceanalyzer.attribution.host.waited_ops import waited_ops
from traceanalyzer.attribution.records.device_ops import DeviceOps, as_launched
from traceanalyzer.attribution.records.host_slices import load_recorded_waits

# An op that starts this long after everything known was ready waited for something unknown.
UNEXPLAINED_NS = 5_000
# An unknown wait was for an op of another stream that ended this shortly before, or within this share of the wait.
COINCIDENT_NS = 20_000
COINCIDENT_SHARE = 0.05
# Device-side time between two ops that follow each other.
GAP_NS = 1_000
_TRANSFER, _P2P = CODE[TRANSFER], CODE[MESSAGE]

# Calls that make a stream wait, and which stream, if recorded. No rows if the trace also records for which stream.
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

# Rows of ops, and the row of an op that each of them waited for.
Pairs = tuple[Ints, Ints]


class Dependencies(Struct, frozen=True):
    """For each op, and each waiting call, the rows of the ops that it had to wait for; NO_ROW: none."""

    stream: Ints  # the op before it in its stream
    other: Ints  # of the ops of other streams, the one that it waited for longest
    more: Pairs  # each op and an op of a further stream, done before `other` and so hidden behind it
    other_is_recorded: Flags  # False: `other` only fits
    possible: Pairs  # each op and an op of another stream that it may also have waited for: not recorded which stream
    of_calls: Ints  # for each waiting call of the host, the op that it waited for last


def stream_predecessors(ops: DeviceOps) -> Ints:
    """Return for each op the op before it in its stream."""
    before = np.full(ops.count, NO_ROW)
    order = np.argsort(ops.stream, kind="stable")
    same = ops.stream[order][1:] == ops.stream[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _coincident(ops: DeviceOps, calls: BlockingCalls, stream: Ints, other: Ints) -> None:
    """Fill in `other` for ops with an unexplained start: the op of another stream that ended just before."""
    lowest = np.iinfo(np.int64).min
    linked = ops.linked
    # A call that returns once its copy is done asked for the copy when it began.
    own_copy = (calls.copy_op != NO_ROW) & (calls.copy_device == ops.device)
    blocking = np.isin(ops.op_id, calls.copy_op[own_copy])
    requested_at = np.where(blocking, np.minimum(ops.launch_start + API_MIN_NS, ops.launch_end), ops.launch_end)
    ready = np.where(linked, requested_at, lowest)
    for before in (stream, other):
        ready = np.maximum(ready, np.where(before == NO_ROW, lowest, ops.end[before]))
    # If the launch of an op is not in the trace, at least the op before it in its stream must be.
    requested = linked | (stream != NO_ROW)
    late = np.flatnonzero(
        requested & (ops.start - np.where(requested, ready, ops.start) > UNEXPLAINED_NS) & (other == NO_ROW)
    )
    by_end = np.argsort(ops.end, kind="stable")
    ends = ops.end[by_end]
    near_ns = np.maximum(COINCIDENT_NS, (ops.start[late] - ready[late]) * COINCIDENT_SHARE).astype(np.int64)
    low = np.searchsorted(ends, ops.start[late] - near_ns, side="right")
    high = np.searchsorted(ends, ops.start[late], side="right")
    for row, first, last in zip(late.tolist(), low.tolist(), high.tolist(), strict=True):
        near = by_end[first:last]
        earlier = ops.launch_start[near] < ops.launch_start[row]
        if not linked[row]:
            earlier = ~linked[near] & (ops.start[near] < ops.start[row])
        fits = near[(ops.stream[near] != ops.stream[row]) & earlier & (ops.end[near] > ready[row])]
        if len(fits):
            other[row] = fits[-1]


def _collective_inputs(ops: DeviceOps, other: Ints) -> None:
    """Fill in `other` for collectives without a known wait: the last work on a computing stream issued before them.

    PyTorch makes the stream of every collective wait for the stream that issues it (ProcessGroupNCCL's syncStream),
    for its copies and its kernels. Parameters are gathered from a separate stream, on which nothing else may run, so
    all-gathers get no such wait.
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
    """Return the first op (copy or kernel) of each step on its stream, with the last collective of the step before it.

    A step computes with what the step before it reduced or gathered. If the host is so late that the collective had
    long been done, the trace shows no wait, and yet the op could not start before its end. A collective that ended
    after the op began was not waited for and is left out.
    """
    comm = as_launched(ops, ops.producer == _TRANSFER)
    launch = ops.launch_start[comm]
    starts = [start for _, start in begins]
    firsts: dict[int, Ints] = {}
    for stream in np.unique(ops.stream[[row for row, _ in begins]]).tolist() if begins else ():
        if not len(on_stream := as_launched(ops, ops.stream == stream)):
            continue  # the steps are marked on the device, and no launch of its work is known
        firsts[stream] = on_stream[np.minimum(np.searchsorted(ops.launch_start[on_stream], starts), len(on_stream) - 1)]
    since = np.searchsorted(launch, starts)
    awaited = {}
    for i in range(1, len(begins)):
        of_stream = firsts.get(int(ops.stream[begins[i][0]]))
        if of_stream is None:
            continue
        row = of_stream[i]
        issued = comm[since[i - 1] : since[i]]
        issued = issued[(ops.stream[issued] != ops.stream[row]) & (issued != other[row])]
        if len(issued):
            last = issued[np.argmax(ops.end[issued])]
            if ops.end[last] <= ops.start[row]:
                awaited[int(row)] = [int(last)]
    return awaited


def _possible_waits(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> Pairs:
    """Return the ops that may have been awaited by the ops launched next after calls that make a stream wait.

    If the trace does not show which stream waits, the streams that get the next launches wait, as many as there were
    calls. Such an op may have waited for the last op of every other stream that was launched before the call and was
    done when the waiting op began.
    """
    recorded = con.execute(_ASKED_QUERY, {"trace_id": trace_id, "device": ops.device, "none": NO_ROW}).fetchall()
    requested, waiting = np.asarray(recorded, np.int64).reshape(-1, 2).T
    streams = np.unique(ops.stream)
    if not len(requested) or len(streams) < 2:
        return _pairs({})
    waiting_since = [_launched_next(ops, requested[waiting == NO_ROW])]
    for stream in np.unique(waiting[waiting != NO_ROW]).tolist():
        on_stream = as_launched(ops, ops.stream == stream)
        call = np.searchsorted(requested[waiting == stream], ops.launch_start[on_stream], side="right") - 1
        first = np.flatnonzero(np.diff(call, prepend=NO_ROW) > 0)
        waiting_since.append((on_stream[first], requested[waiting == stream][call[first]]))
    rows, since = (np.concatenate(part) for part in zip(*waiting_since, strict=True))
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


def _launched_next(ops: DeviceOps, requested: Ints) -> Pairs:
    """Return the first op launched to each stream after calls, and the last call before it.

    N calls with no launch in between are for N streams.
    """
    launched = as_launched(ops, np.ones(ops.count, np.bool_))
    streams, stream_of = np.unique(ops.stream[launched], return_inverse=True)
    call = np.searchsorted(requested, ops.launch_start[launched]) - 1  # the last one before each launch
    _, first = np.unique(call * len(streams) + stream_of, return_index=True)
    first = np.sort(first[call[first] != NO_ROW])
    nth = np.arange(len(first)) - np.searchsorted(call[first], call[first])
    calls = call - np.concatenate([[NO_ROW], call])[np.searchsorted(call, call)]
    first = first[nth < calls[first]]
    return launched[first], requested[call[first]]


def find_dependencies(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    ops: DeviceOps,
    calls: BlockingCalls,
    begins: Sequence[tuple[int, int]] = (),
) -> Dependencies:
    """Return the ops of a device that each op, and each call of the host, had to wait for.

    `begins` holds for each step, in order, the row of its first op and its start on the host.
    """
    stream = stream_predecessors(ops)
    other = np.full(ops.count, NO_ROW)
    waits = load_recorded_waits(con, trace_id, ops)
    # One op per stream, the latest first.
    awaited = {row: sorted(found.values(), key=lambda op: (-ops.end[op], op)) for row, found in waits.awaited.items()}
    other[list(awaited)] = [found[0] for found in awaited.values()]
    recorded = other != NO_ROW
    _coincident(ops, calls, stream, other)
    more = {row: found[1:] for row, found in awaited.items()}
    if not waits.are_there:  # recorded waits make assumptions needless
        _collective_inputs(ops, other)
        more = _results_of_steps(ops, begins, other)
    of_calls = waited_ops(calls, ops, waits)
    return Dependencies(stream, other, _pairs(more), recorded, _possible_waits(con, trace_id, ops), of_calls)


def _pairs(awaited: Mapping[int, Sequence[int]]) -> Pairs:
    pairs = [(row, op) for row, found in sorted(awaited.items()) for op in found]
    row, op = np.asarray(pairs, np.int64).reshape(-1, 2).T
    return row, op
