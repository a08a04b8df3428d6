"""A device's span cut into rows with one cause each: disjoint, and complete to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import (
    CODE,
    COMPUTE,
    COPIES,
    FIRST_HOST,
    HEAD,
    HOST,
    NO_LAUNCH,
    NO_ROW,
    NOT_RECORDED,
    QUEUED_BEFORE,
    TAIL,
    Codes,
    Flags,
    Ints,
)
from traceanalyzer.attribution.columns import UNRESOLVED as DEVICE_UNRESOLVED
from traceanalyzer.attribution.host.blocking_calls import BlockingCalls
from traceanalyzer.attribution.host.host_timeline import Timeline
from traceanalyzer.attribution.ledger.dependencies import Dependencies
from traceanalyzer.attribution.ledger.device_waits import (
    explain_host_waits,
    explain_waits,
    issued_late,
    join_waits,
    waits_for_what_came_before,
)
from traceanalyzer.attribution.ledger.launch_delay import LaunchDelayShares, explain_launch_delays
from traceanalyzer.attribution.records.device_ops import DeviceOps, queued_before

_COPIES = [CODE[copy] for copy in COPIES]
RESOLVED, COINCIDENT, UNRESOLVED = 0, 1, 2
CONFIDENCES = ("resolved", "coincident", "unresolved")


class LedgerRows(Struct, frozen=True):
    """Rows in time order. `blame` is a row of the host slices, or of the device's ops where `blames_op` is set."""

    start: Ints
    dur: Ints
    bucket: Codes
    blame: Ints
    blames_op: Flags
    confidence: Codes
    late_issue: Flags  # the awaited op was itself issued too late


class Islands(Struct, frozen=True):
    """Stretches of a device in which compute runs without a gap, zero-length stretches included."""

    start: Ints
    end: Ints
    first_op: Ints  # op that ended the gap before; of several the one launched first


class _Gaps(Struct, frozen=True):
    """Stretches without compute and the kernel that ended each."""

    start: Ints
    end: Ints
    op: Ints


def compute_islands(ops: DeviceOps) -> Islands:
    """Return the stretches in which compute runs."""
    rows = np.flatnonzero(ops.compute)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Islands(none, none, none)
    start, end = ops.start[rows], np.maximum.accumulate(ops.end[rows])
    first = np.append(0, np.flatnonzero(start[1:] > end[:-1]) + 1)
    last = np.append(first[1:] - 1, len(rows) - 1)
    chosen, linked = rows[first], ops.linked
    together = np.flatnonzero(np.append(start[1:] == start[:-1], False)[first])
    for island in together.tolist():
        high = int(np.searchsorted(start, start[first[island]], side="right"))
        same = rows[first[island] : high]
        chosen[island] = same[np.lexsort((ops.op_id[same], ops.launch_start[same], ~linked[same]))[0]]
    return Islands(start[first], end[last], chosen)


def continues_launch(ops: DeviceOps) -> Flags:
    """Return which compute ops are not the first of their launch: one graph launch issues many."""
    rows = np.flatnonzero(ops.compute & ops.linked)
    _, first = np.unique(ops.launch_id[rows], return_index=True)
    follows = np.zeros(ops.count, np.bool_)
    follows[rows] = True
    follows[rows[first]] = False
    return follows


def _idle_gaps(islands: Islands, begins: int) -> _Gaps:
    start = np.append(begins, islands.end[:-1])
    some = islands.start > start
    return _Gaps(start[some], islands.start[some], islands.first_op[some])


class _Parts(Struct):
    """Rows in the order in which they are made."""

    columns: list[tuple[Ints, ...]]

    def add(
        self,
        start: Ints,
        dur: Ints,
        bucket: Ints | int,
        blame: Ints | int,
        blames_op: Flags | bool,
        confidence: Ints | int,
        late_issue: Flags | bool = False,
    ) -> None:
        """Append rows; a single value holds for all of them."""
        values = (bucket, blame, blames_op, confidence, late_issue)
        full = [np.broadcast_to(np.asarray(value, np.int64), start.shape) for value in values]
        self.columns.append((start, dur, *full))

    def rows(self) -> LedgerRows:
        """Return the rows in time order, without empty rows; a host call that goes on in the next row is one row."""
        columns = [np.concatenate(column) for column in zip(*self.columns, strict=True)]
        keep = np.flatnonzero(columns[1] > 0)
        order = keep[np.argsort(columns[0][keep], kind="stable")]
        start, dur, *rest = (column[order] for column in columns)
        bucket, blame, blames_op, confidence, late_issue = rest
        goes_on = (start[1:] == start[:-1] + dur[:-1]) & (blames_op[1:] == 0)
        for column in rest:
            goes_on &= column[1:] == column[:-1]
        first = np.flatnonzero(np.append(True, ~goes_on)[: len(start)])
        return LedgerRows(
            start[first],
            np.add.reduceat(dur, first) if len(first) else dur,
            bucket[first].astype(np.int8),
            blame[first],
            blames_op[first].astype(np.bool_),
            confidence[first].astype(np.int8),
            late_issue[first].astype(np.bool_),
        )


def _add_launch_delays(parts: _Parts, found: LaunchDelayShares) -> None:
    begin = found.start[:, None] + np.cumsum(found.shares, axis=1) - found.shares
    code = np.broadcast_to(np.arange(len(HOST)), found.shares.shape)
    unknown = np.where(code == len(HOST) - 1, UNRESOLVED, RESOLVED)
    parts.add(
        begin.ravel(), found.shares.ravel(), code.ravel() + FIRST_HOST, found.blames.ravel(), False, unknown.ravel()
    )


def _add_tail(parts: _Parts, ops: DeviceOps, needs: Dependencies, begin: int, *, computed: bool) -> None:
    """Add what follows the last compute: copies while they run, and the rest as the tail.

    Where nothing computed at all, all is tail. The programs of a TPU are done only when what they wait for is.
    """
    last = int(np.argmax(ops.end))
    if ops.of_program[last] and ops.producer[last] >= 0 and ops.end[last] > begin:
        _add_program_tail(parts, ops, needs, last, begin)
        return
    copies = np.flatnonzero(np.isin(ops.producer, _COPIES) & (ops.end > begin) & computed)
    copies = copies[np.argsort(ops.start[copies], kind="stable")]
    ends = np.maximum.accumulate(np.append(begin, ops.end[copies]))
    start = np.maximum(ops.start[copies], ends[:-1])
    parts.add(start, np.maximum(ends[1:] - start, 0), ops.producer[copies].astype(np.int64), copies, True, RESOLVED)
    until = np.append(start, ops.end.max())
    parts.add(ends, np.maximum(until - ends, 0), CODE[TAIL], NO_ROW, False, UNRESOLVED)


def _add_program_tail(parts: _Parts, ops: DeviceOps, needs: Dependencies, last: int, since: int) -> None:
    begins = max(int(ops.start[last]), since)
    row = np.asarray([last])
    parts.add(np.asarray([begins]), ops.end[row] - begins, int(ops.producer[last]), last, True, RESOLVED)
    before = explain_waits(ops, needs, row, np.asarray([since]), np.asarray([begins]), np.asarray([False]))
    bucket = np.where(before.bucket == CODE[DEVICE_UNRESOLVED], CODE[TAIL], before.bucket)
    parts.add(before.start, before.dur, bucket, before.op, True, np.where(bucket == CODE[TAIL], UNRESOLVED, RESOLVED))


def build_ledger(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    latency: int,
    full_queue: Flags,
    window_start: int,
) -> LedgerRows:
    """Return the ledger of one device, from its first op on, or from where its analysis window begins."""
    parts = _Parts([])
    span_start = min(int(ops.start.min()), window_start)
    islands = compute_islands(ops)
    parts.add(islands.start, islands.end - islands.start, CODE[COMPUTE], NO_ROW, False, RESOLVED)
    computed = len(islands.end) > 0
    _add_tail(parts, ops, needs, int(islands.end[-1]) if computed else span_start, computed=computed)
    gaps = _idle_gaps(islands, span_start)
    # Work launched before the trace began was issued in time, and so was what follows in the run of a program.
    linked = (ops.linked | queued_before(ops) | ops.of_program)[gaps.op]
    lost = _Gaps(gaps.start[~linked], gaps.end[~linked], gaps.op[~linked])
    edge = np.where(lost.start == span_start, CODE[HEAD], CODE[NO_LAUNCH])
    parts.add(lost.start, lost.end - lost.start, edge, lost.op, True, UNRESOLVED)

    start, end, op = gaps.start[linked], gaps.end[linked], gaps.op[linked]
    in_graph = continues_launch(ops)[op]
    requested, issued = ops.launch_start[op], ops.launch_end[op]
    # During a launch call that waits for room in the queue, the device is late and not the host.
    called = np.where(full_queue[op], requested, issued)
    late_end = np.where(called > start, np.minimum(end, called + latency), start)
    late_end = np.where(in_graph | ~ops.linked[op], start, late_end)
    late = np.flatnonzero(late_end > start)
    late_ns = late_end[late] - start[late]
    launch_delay = explain_launch_delays(ops, needs, timelines, calls, op[late], start[late], late_ns, span_start)
    _add_launch_delays(parts, launch_delay)
    waits = np.flatnonzero(end > late_end)
    of_ranks, of_calls = explain_host_waits(ops, needs, calls, launch_delay.waits)
    parts.add(of_calls.start, of_calls.dur, of_calls.bucket, of_calls.op, False, RESOLVED)
    found = join_waits([explain_waits(ops, needs, op[waits], late_end[waits], end[waits], in_graph[waits]), of_ranks])
    sure = np.where(found.coincident, COINCIDENT, RESOLVED)
    open_ones = np.flatnonzero(found.bucket == CODE[DEVICE_UNRESOLVED])
    sure[open_ones] = UNRESOLVED
    carried = waits_for_what_came_before(ops, needs, timelines, calls, found.op[open_ones], found.dur[open_ones])
    bucket = found.bucket.copy()
    bucket[open_ones[carried]] = CODE[QUEUED_BEFORE]
    # Queued work runs without long gaps: here the host may have been late with a call that is not in the trace.
    bucket[open_ones[~ops.linked[found.op[open_ones]]]] = CODE[NO_LAUNCH]
    since = start[np.searchsorted(start, found.start, side="right") - 1] if len(start) else start
    # A rank that is not the last to arrive at a collective waits longer if it arrives earlier.
    held = (ops.producer[found.op] == bucket) & (ops.comm_wait[found.op] == 0)
    late_issue = held & issued_late(ops, needs, found.op, since, latency)
    parts.add(found.start, found.dur, bucket, found.op, True, sure, late_issue)
    return _overlay_missing(parts.rows(), ops)


def _overlay_missing(rows: LedgerRows, ops: DeviceOps) -> LedgerRows:
    """Return rows that name the time of work that was not recorded, whatever the rest says of it."""
    if not len(ops.missing_start):
        return rows
    edges = np.unique(np.concatenate([rows.start, rows.start + rows.dur, ops.missing_start, ops.missing_end]))
    start, end = edges[:-1], edges[1:]
    of = np.searchsorted(rows.start, start, side="right") - 1
    within = (of >= 0) & (start < (rows.start + rows.dur)[of])
    start, end, of = start[within], end[within], of[within]
    hole = np.searchsorted(ops.missing_start, start, side="right") - 1
    missing = (hole >= 0) & (start < ops.missing_end[hole])
    parts = _Parts([])
    for which, there in ((missing, True), (~missing, False)):
        kept = of[which]
        parts.add(
            start[which],
            (end - start)[which],
            CODE[NOT_RECORDED] if there else rows.bucket[kept].astype(np.int64),
            NO_ROW if there else rows.blame[kept],
            False if there else rows.blames_op[kept],
            UNRESOLVED if there else rows.confidence[kept].astype(np.int64),
            False if there else rows.late_issue[kept],
        )
    return parts.rows()
