"""Why a kernel that was issued in time did not start: the ops it waited for, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import CODE, DISPATCH, GRAPH_GAP, SKEW, TRANSFER, UNRESOLVED, Flags, Ints
from traceanalyzer.attribution.dependencies import UNEXPLAINED_NS, Dependencies
from traceanalyzer.attribution.device_ops import DeviceOps

# Gaps between ready ops up to this length are what dispatching costs; longer ones have a reason nobody recorded.
DISPATCH_MAX_NS = 10_000
# HIP puts a barrier packet between two kernels where a call lies between their launches: 10 to 16 us on an MI300.
HIP_DISPATCH_MAX_NS = 20_000

_DISPATCH, _GRAPH_GAP, _UNRESOLVED = CODE[DISPATCH], CODE[GRAPH_GAP], CODE[UNRESOLVED]


@dataclass(frozen=True)
class DeviceWaits:
    """Pieces of waits: start, length, bucket, the op to blame (NO_ROW: none), and how sure that is."""

    start: Ints
    dur: Ints
    bucket: Ints
    op: Ints
    coincident: Flags


_TRANSFER, _SKEW = CODE[TRANSFER], CODE[SKEW]


def _producers(ops: DeviceOps, needs: Dependencies, rows: Ints, since: Ints) -> tuple[Ints, Flags]:
    """Return the op other than compute that each row waited for last after an instant, and whether it only fits."""
    stream, other = (
        np.where((before != NO_ROW) & (ops.producer[before] >= 0) & (ops.end[before] > since), before, NO_ROW)
        for before in (needs.stream[rows], needs.other[rows])
    )
    by_other = (other != NO_ROW) & ((stream == NO_ROW) | (ops.end[other] > ops.end[stream]))
    return np.where(by_other, other, stream), by_other & ~needs.other_is_recorded[rows]


def _longest_gaps(ops: DeviceOps, rows: Ints) -> Ints:
    """Return the longest gap before each op that dispatching it explains."""
    of_hip = ops.launch_name.where(lambda name: name is not None and name.startswith("hip"))
    found: Ints = np.where(of_hip[rows], HIP_DISPATCH_MAX_NS, DISPATCH_MAX_NS)
    return found


@dataclass(frozen=True)
class _Spans:
    """What is left of waits to be explained: the kernel that waited, and the op that it or another waited for."""

    row: Ints
    waiting: Ints
    since: Ints
    until: Ints
    in_graph: Flags
    longest: Ints  # gap that dispatching explains

    def some(self, which: Flags) -> _Spans:
        """Return some of them."""
        return _Spans(*(getattr(self, field.name)[which] for field in fields(self)))


def _gaps(spans: _Spans) -> DeviceWaits:
    """Return spans in which nothing that is known was waited for: dispatching, if they are short enough."""
    length = spans.until - spans.since
    short = length <= spans.longest
    bucket = np.where(short, np.where(spans.in_graph, _GRAPH_GAP, _DISPATCH), _UNRESOLVED)
    op = np.where(short, spans.row, spans.waiting)
    return DeviceWaits(spans.since, length, bucket, op, np.zeros(len(length), np.bool_))


def _walk(ops: DeviceOps, needs: Dependencies, spans: _Spans) -> Iterator[DeviceWaits]:
    """Cut waits, from their ends backwards along the ops that held them up."""
    while len(spans.row):
        producer, only_fits = _producers(ops, needs, spans.waiting, spans.since)
        held = producer != NO_ROW
        done = np.where(held, np.minimum(ops.end[producer], spans.until), spans.since)
        yield _gaps(replace(spans, since=done).some(done < spans.until))
        spans, producer, only_fits, done = spans.some(held), producer[held], only_fits[held], done[held]
        began = np.minimum(np.maximum(ops.start[producer], spans.since), done)
        # Up to here a collective waited for its last rank.
        met = np.minimum(np.maximum(ops.start[producer] + ops.comm_wait[producer], began), done)
        bucket = ops.producer[producer].astype(np.int64)
        waits = np.where(bucket == _TRANSFER, _SKEW, bucket)
        yield DeviceWaits(began, met - began, waits, producer, only_fits)
        yield DeviceWaits(met, done - met, bucket, producer, only_fits)
        # Of equal starts neither waited for the other: nothing further back is known.
        tied = ops.start[producer] >= ops.start[spans.waiting]
        spans = replace(spans, waiting=producer, until=began)
        goes_on = began > spans.since
        yield _gaps(spans.some(tied & goes_on))
        spans = spans.some(~tied & goes_on)


def issued_late(ops: DeviceOps, needs: Dependencies, rows: Ints, since: Ints, latency: int) -> Flags:
    """Return which ops were asked for after an instant, each its own, and began as soon as they were.

    With an earlier host they begin earlier too. One that then had to wait for its stream or for another op did not.
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
    """Cut the waits [start, end) of some kernels by what they waited for."""
    spans = _Spans(rows, rows, starts, ends, in_graph, _longest_gaps(ops, rows))
    parts = list(_walk(ops, needs, spans.some(ends > starts)))
    found = [
        np.concatenate([getattr(part, field.name) for part in parts] or [np.zeros(0, np.int64)])
        for field in fields(DeviceWaits)
    ]
    there = found[1] > 0
    start, dur, bucket, op, coincident = (values[there] for values in found)
    return DeviceWaits(start, dur, bucket, op, coincident.astype(np.bool_))
