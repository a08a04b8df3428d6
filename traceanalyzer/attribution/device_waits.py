"""Why a kernel that was issued in time did not start: the ops it waited for, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
_Piece = tuple[int, int, int, int, bool]


def _producer(ops: DeviceOps, needs: Dependencies, row: int, since: int) -> tuple[int, bool]:
    """Return the op other than compute that `row` waited for last after `since`, and whether it only fits."""
    best, only_fits = NO_ROW, False
    stream, other = int(needs.stream[row]), int(needs.other[row])
    if stream != NO_ROW and ops.producer[stream] >= 0 and ops.end[stream] > since:
        best = stream
    held = other != NO_ROW and ops.producer[other] >= 0 and ops.end[other] > since
    if held and (best == NO_ROW or ops.end[other] > ops.end[best]):
        best, only_fits = other, not bool(needs.other_is_recorded[row])
    return best, only_fits


def _longest_gaps(ops: DeviceOps, rows: Ints) -> Ints:
    """Return the longest gap before each op that dispatching it explains."""
    of_hip = ops.launch_name.where(lambda name: name is not None and name.startswith("hip"))
    found: Ints = np.where(of_hip[rows], HIP_DISPATCH_MAX_NS, DISPATCH_MAX_NS)
    return found


def _gap(span: tuple[int, int], in_graph: bool, row: int, waiting: int, longest: int) -> _Piece:
    """Return the time before `waiting`, the op itself or one that it waited for."""
    start, end = span
    if end - start <= longest:
        return start, end - start, _GRAPH_GAP if in_graph else _DISPATCH, row, False
    return start, end - start, _UNRESOLVED, waiting, False


def _walk(
    ops: DeviceOps, needs: Dependencies, row: int, span: tuple[int, int], in_graph: bool, longest: int
) -> Iterator[_Piece]:
    """Cut one wait, from its end backwards along the ops that held it up."""
    since, until = span
    waiting = row
    while until > since:
        producer, only_fits = _producer(ops, needs, waiting, since)
        done = min(int(ops.end[producer]), until) if producer != NO_ROW else since
        if done < until:
            yield _gap((done, until), in_graph, row, waiting, longest)
        if producer == NO_ROW:
            return
        began = min(max(int(ops.start[producer]), since), done)
        # Up to here a collective waited for its last rank.
        met = min(max(int(ops.start[producer] + ops.comm_wait[producer]), began), done)
        bucket = int(ops.producer[producer])
        if began < met:
            yield began, met - began, _SKEW if bucket == _TRANSFER else bucket, producer, only_fits
        if met < done:
            yield met, done - met, bucket, producer, only_fits
        if int(ops.start[producer]) >= int(ops.start[waiting]):
            # Of equal starts neither waited for the other: nothing further back is known.
            if began > since:
                yield _gap((since, began), in_graph, row, producer, longest)
            return
        waiting, until = producer, began


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
    candidate = np.zeros(len(rows), np.bool_)
    for before in (needs.stream[rows], needs.other[rows]):
        candidate |= (before != NO_ROW) & (ops.producer[before] >= 0) & (ops.end[before] > starts)
    plain = np.flatnonzero(~candidate)
    longest = _longest_gaps(ops, rows)
    short = ends[plain] - starts[plain] <= longest[plain]
    bucket = np.where(short, np.where(in_graph[plain], _GRAPH_GAP, _DISPATCH), _UNRESOLVED)
    walked = [
        piece
        for at in np.flatnonzero(candidate).tolist()
        for piece in _walk(
            ops, needs, int(rows[at]), (int(starts[at]), int(ends[at])), bool(in_graph[at]), int(longest[at])
        )
    ]
    columns = [np.asarray(values, dtype=np.int64) for values in zip(*walked, strict=True)] or [
        np.zeros(0, np.int64)
    ] * 5
    return DeviceWaits(
        np.concatenate([starts[plain], columns[0]]),
        np.concatenate([ends[plain] - starts[plain], columns[1]]),
        np.concatenate([bucket, columns[2]]),
        np.concatenate([rows[plain], columns[3]]),
        np.concatenate([np.zeros(len(plain), np.bool_), columns[4].astype(np.bool_)]),
    )
