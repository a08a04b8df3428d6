"""The reasons why a kernel that was issued in time did not start: ops that it waited for, and gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from traceanalyzer.attribution.columns import (
    CODE,
    COPIES,
    DISPATCH,
    FIRST_HOST,
    GRAPH_GAP,
    MESSAGE,
    NO_ROW,
    STRAGGLER_WAIT,
    SYNC_CODE,
    TRANSFER,
    UNRESOLVED,
    Flags,
    Ints,
)
from traceanalyzer.attribution.host.blocking_calls import READ_BACK_COPY_MIN_NS, BlockingCalls
from traceanalyzer.attribution.host.host_timeline import Timeline
from traceanalyzer.attribution.ledger.dependencies import UNEXPLAINED_NS, Dependencies
from traceanalyzer.attribution.ledger.launch_delay import HostWaits
from traceanalyzer.attribution.records.device_ops import DeviceOps

# Gaps between ready ops up to this length are the cost of dispatching; longer gaps have an unrecorded reason.
DISPATCH_MAX_NS = 10_000
# HIP puts a barrier packet between two kernels if another call lies between their launches: 10 to 16 us on an MI300.
HIP_DISPATCH_MAX_NS = 20_000

_DISPATCH, _GRAPH_GAP, _UNRESOLVED = CODE[DISPATCH], CODE[GRAPH_GAP], CODE[UNRESOLVED]


class DeviceWaits(Struct, frozen=True):
    """Pieces of waits: start, length, bucket, the op to blame (NO_ROW: none), and whether that op only fits."""

    start: Ints
    dur: Ints
    bucket: Ints
    op: Ints
    coincident: Flags


_TRANSFER, _STRAGGLER_WAIT = CODE[TRANSFER], CODE[STRAGGLER_WAIT]
_OF_RANKS = (_TRANSFER, _STRAGGLER_WAIT, CODE[MESSAGE])
_COPIES = [CODE[copy] for copy in COPIES]


def _producers(ops: DeviceOps, needs: Dependencies, rows: Ints, since: Ints) -> tuple[Ints, Flags]:
    """Return the non-compute op that each row waited for last after an instant, and whether it only fits."""
    stream, other = (
        np.where((before != NO_ROW) & (ops.producer[before] >= 0) & (ops.end[before] > since), before, NO_ROW)
        for before in (needs.stream[rows], needs.other[rows])
    )
    by_other = (other != NO_ROW) & ((stream == NO_ROW) | (ops.end[other] > ops.end[stream]))
    return np.where(by_other, other, stream), by_other & ~needs.other_is_recorded[rows]


def _longest_gaps(ops: DeviceOps, rows: Ints) -> Ints:
    """Return the longest gap before each op that dispatching can explain."""
    of_hip = ops.launch_name.where(lambda name: name is not None and name.startswith("hip"))
    found: Ints = np.where(of_hip[rows], HIP_DISPATCH_MAX_NS, DISPATCH_MAX_NS)
    return found


class _Spans(Struct, frozen=True):
    """The parts of waits still to be explained: the kernel that waited, and the op whose wait is now followed."""

    row: Ints
    waiting: Ints
    since: Ints
    until: Ints
    in_graph: Flags
    longest: Ints  # gap that dispatching explains

    def some(self, which: Flags) -> _Spans:
        return _Spans(*(values[which] for values in astuple(self)))


def _gaps(spans: _Spans) -> DeviceWaits:
    """Return spans without a known wait: dispatch gaps if they are short enough, else unresolved."""
    length = spans.until - spans.since
    short = length <= spans.longest
    bucket = np.where(short, np.where(spans.in_graph, _GRAPH_GAP, _DISPATCH), _UNRESOLVED)
    op = np.where(short, spans.row, spans.waiting)
    return DeviceWaits(spans.since, length, bucket, op, np.zeros(len(length), np.bool_))


def _walk(
    ops: DeviceOps, needs: Dependencies, spans: _Spans, producer: Ints, only_fits: Flags
) -> Iterator[DeviceWaits]:
    """Cut waits into pieces, from their ends backwards along the ops that delayed them, `producer` the last."""
    while len(spans.row):
        held = producer != NO_ROW
        done = np.where(held, np.minimum(ops.end[producer], spans.until), spans.since)
        yield _gaps(replace(spans, since=done).some(done < spans.until))
        spans, producer, only_fits, done = spans.some(held), producer[held], only_fits[held], done[held]
        began = np.minimum(np.maximum(ops.start[producer], spans.since), done)
        # Up to `met` a collective waited for its last rank.
        met = np.minimum(np.maximum(ops.start[producer] + ops.comm_wait[producer], began), done)
        bucket = ops.producer[producer].astype(np.int64)
        waits = np.where(bucket == _TRANSFER, _STRAGGLER_WAIT, bucket)
        yield DeviceWaits(began, met - began, waits, producer, only_fits)
        yield DeviceWaits(met, done - met, bucket, producer, only_fits)
        # Two ops with equal starts did not wait for each other: nothing further back is known.
        tied = ops.start[producer] >= ops.start[spans.waiting]
        spans = replace(spans, waiting=producer, until=began)
        goes_on = began > spans.since
        yield _gaps(spans.some(tied & goes_on))
        spans = spans.some(~tied & goes_on)
        producer, only_fits = _producers(ops, needs, spans.waiting, spans.since)


def issued_late(ops: DeviceOps, needs: Dependencies, rows: Ints, since: Ints, latency: int) -> Flags:
    """Return which ops were issued after an instant (one per op) and began at once.

    With an earlier host these ops begin earlier too. Ops that then waited for their stream or another op are left out.
    """
    issued = np.minimum(ops.launch_end[rows], ops.start[rows])
    at_once = ops.start[rows] - issued <= latency + UNEXPLAINED_NS
    for before in (needs.stream[rows], needs.other[rows]):
        at_once &= (before == NO_ROW) | (ops.end[before] <= issued + latency)
    late: Flags = ops.linked[rows] & (issued > since) & at_once
    return late


def explain_waits(
    ops: DeviceOps, needs: Dependencies, rows: Ints, starts: Ints, ends: Ints, in_graph: Flags
) -> DeviceWaits:
    """Cut the waits [start, end) of some kernels into pieces by what they waited for."""
    spans = _Spans(rows, rows, starts, ends, in_graph, _longest_gaps(ops, rows)).some(ends > starts)
    return join_waits(_walk(ops, needs, spans, *_producers(ops, needs, spans.waiting, spans.since)))


def explain_host_waits(
    ops: DeviceOps, needs: Dependencies, calls: BlockingCalls, waits: HostWaits
) -> tuple[DeviceWaits, DeviceWaits]:
    """Cut the waits of a late host into time in collectives, messages and copies, by op, and the rest, by its calls.

    The host waited there for what the device waited for. Its wait for another rank is that rank's launch delay,
    whatever the kernel needs; a transfer counts only where the kernel waits for it on the device, too. A
    synchronisation that waits while a long copy runs waits for that copy; a short copy costs less than the wait.
    """
    order = np.argsort(waits.start, kind="stable")
    waits = HostWaits(*(values[order] for values in astuple(waits)))
    no_graph = np.zeros(len(order), np.bool_)
    spans = _Spans(waits.kernel, waits.kernel, waits.start, waits.end, no_graph, np.zeros(len(order), np.int64))
    last = needs.of_calls[waits.call]
    known = (last != NO_ROW) & (ops.producer[last] >= 0) & (ops.end[last] > waits.start)
    before, only_fits = _producers(ops, needs, np.where(last == NO_ROW, waits.kernel, last), waits.start)
    found = join_waits(_walk(ops, needs, spans, np.where(known, last, before), only_fits & ~known))
    of_kernels = explain_waits(ops, needs, waits.kernel, waits.start, waits.end, no_graph)
    wait = np.searchsorted(waits.start, found.start, side="right") - 1
    of_ranks = found.start + found.dur <= ops.start[found.op] + ops.comm_wait[found.op]
    # The first op of a step needs what the step before it reduced.
    needed = np.isin(_keys(ops, waits, found), _keys(ops, waits, of_kernels)) | np.isin(found.op, needs.more[1])
    met = np.isin(found.bucket, _OF_RANKS) & (of_ranks | needed)
    copying = np.isin(found.bucket, _COPIES) & (calls.cause[waits.call[wait]] == SYNC_CODE)
    met |= copying & (ops.end[found.op] - ops.start[found.op] > READ_BACK_COPY_MIN_NS)
    calls_of_rest = waits.call[wait[~met]]
    rest = replace(
        _some(found, ~met), bucket=FIRST_HOST + calls.cause[calls_of_rest].astype(np.int64), op=calls.row[calls_of_rest]
    )
    return _some(found, met), rest


def _keys(ops: DeviceOps, waits: HostWaits, found: DeviceWaits) -> Ints:
    """Return a number for each piece that names the wait in which it lies and the op that was waited for."""
    return (np.searchsorted(waits.start, found.start, side="right") - 1) * ops.count + found.op


def _some(found: DeviceWaits, which: Flags) -> DeviceWaits:
    return DeviceWaits(*(values[which] for values in astuple(found)))


def join_waits(pieces: Iterable[DeviceWaits]) -> DeviceWaits:
    """Return the pieces of several cuts that are not empty."""
    parts = list(pieces)
    found = [
        np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, np.int64)])
        for name in DeviceWaits.__struct_fields__
    ]
    there = found[1] > 0
    start, dur, bucket, op, coincident = (values[there] for values in found)
    return DeviceWaits(start, dur, bucket, op, coincident.astype(np.bool_))


def waits_for_what_came_before(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    rows: Ints,
    wait_ns: Ints,
) -> Flags:
    """Return which waits were for work from before the trace; each wait is named by the op that waited.

    Streams are first in, first out. So the first recorded op of a stream waited for earlier work if it was launched
    before any call could see the stream empty. A wait shorter than the time recorded before the launch stays unknown.
    """
    begin = min((int(t.event_start[0]) for t in timelines.values() if len(t.event_start)), default=0)
    first: Flags = ops.linked[rows] & (needs.stream[rows] == NO_ROW) & (needs.other[rows] == NO_ROW)
    first &= ops.launch_start[rows] - begin < wait_ns
    for at in np.flatnonzero(first).tolist():
        requested = calls.end <= ops.launch_start[rows[at]]
        first[at] = not (requested & ((calls.stream == NO_ROW) | (calls.stream == ops.stream[rows[at]]))).any()
    return first
