"""Why the host was late with a kernel: the causes that its launching thread spent the time on.

The state of the thread while the device is idle is the wrong witness: after a synchronisation the device is idle while
the thread works, and in a launch-bound loop the idle part falls into the launch call whatever the rest costs. So each
lateness is laid on the whole stretch of host time since the previous compute launch, in proportion to what it holds.
Time before a wait that began while compute was still running cost nothing (the wait would have been longer), and what
is short of lead after it is the wait's doing: light causes pass their share on to it, up to the time waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import BlockingCalls, device_waits_of
from traceanalyzer.attribution.buckets import HOST, LIGHT_CODES, OTHER_CODE, SYNC_CODE, Flags, Ints
from traceanalyzer.attribution.dependencies import Dependencies
from traceanalyzer.attribution.device_ops import DeviceOps
from traceanalyzer.attribution.host_costs import cut, hand_over
from traceanalyzer.attribution.host_timeline import Timeline
from traceanalyzer.attribution.late_parts import LateParts, cut_at_waits, waits_in_pauses


@dataclass(frozen=True)
class Lateness:
    """One row a part of a pause, one column a code of HOST: its share in ns, and the slice to blame."""

    start: Ints
    shares: Ints
    blames: Ints


@dataclass(frozen=True)
class _Launches:
    """Launch calls of compute work in order, and where the stretch of host time that led to each begins."""

    launch_id: Ints
    thread: Ints
    end: Ints
    since: Ints
    since_thread: Ints


def _compute_launches(ops: DeviceOps) -> _Launches:
    rows = np.flatnonzero(ops.compute & ops.linked)
    launch_id, first = np.unique(ops.launch_id[rows], return_index=True)
    rows = rows[first]
    order = np.lexsort((launch_id, ops.launch_start[rows]))
    rows = rows[order]
    end = np.maximum.accumulate(ops.launch_end[rows]) if len(rows) else rows
    begin = min(int(ops.start.min()), int(ops.launch_start[rows].min())) if len(rows) else 0
    thread = ops.launch_thread[rows]
    return _Launches(
        launch_id=ops.launch_id[rows],
        thread=thread,
        end=end,
        since=np.concatenate([[begin], end[:-1]])[: len(rows)],
        since_thread=np.concatenate([thread[:1], thread[:-1]]),
    )


@dataclass(frozen=True)
class _Carried:
    """For each stretch the wait for the device that took the lead away, if any."""

    found: Flags
    until: Ints  # host time before it cost nothing
    thread: Ints
    cause: Ints
    row: Ints
    waited: Ints  # but for what compute missed meanwhile: that is the wait's own already


def _last_waits(calls: BlockingCalls, waited: Ints, threads: Ints, since: Ints, idle_from: Ints) -> _Carried:
    """Return for each stretch the last wait in it that began before compute ran dry."""
    real = np.flatnonzero((waited > 0) & np.isin(calls.thread, threads))
    real = real[np.argsort(calls.start[real], kind="stable")]
    if not len(real):
        none = np.zeros(len(since), np.int64)
        return _Carried(none.astype(np.bool_), none, none, none, none, none)
    release = np.maximum.accumulate(calls.release[real])
    last = np.searchsorted(calls.start[real], idle_from, side="left") - 1
    first = np.searchsorted(release, since, side="right")
    found = last >= first
    total = np.concatenate([[0], np.cumsum(waited[real])])
    at = np.where(found, last, 0)
    missed = np.maximum(0, release[at] - idle_from)
    return _Carried(
        found,
        np.minimum(release[at], idle_from),
        calls.thread[real[at]],
        calls.cause[real[at]].astype(np.int64),
        calls.row[real[at]],
        np.where(found, np.maximum(0, total[last + 1] - total[np.minimum(first, last + 1)] - missed), 0),
    )


def _rounded(shares: np.ndarray[tuple[int, int], np.dtype[np.float64]], total: Ints) -> Ints:
    """Round shares down and give what is left of each total to its largest share."""
    whole = np.floor(shares).astype(np.int64)
    largest = np.argmax(shares, axis=1)
    whole[np.arange(len(total)), largest] += total - whole.sum(axis=1)
    return whole


def explain_lateness(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    late_rows: Ints,
    idle_from: Ints,
    late_ns: Ints,
) -> Lateness:
    """Return which causes own how much of the lateness of kernels that compute waited for from `idle_from` on."""
    if not len(late_rows):
        none = np.zeros((0, len(HOST)), np.int64)
        return Lateness(none[:, 0], none, none)
    launches = _compute_launches(ops)
    by_id = np.argsort(launches.launch_id, kind="stable")
    at = by_id[np.searchsorted(launches.launch_id, ops.launch_id[late_rows], sorter=by_id)]
    since, end = launches.since[at], launches.end[at]
    waited = device_waits_of(calls, ops, needs.of_calls, needs.stream)
    threads = np.unique(launches.thread)
    carried = _last_waits(calls, waited, threads, since, idle_from)
    since = np.where(carried.found, carried.until, since)
    since_thread = np.where(carried.found, carried.thread, launches.since_thread[at])
    pauses = LateParts(
        np.arange(len(at)), since, end, since_thread, launches.thread[at], idle_from, idle_from + late_ns
    )
    waits = waits_in_pauses(pauses, calls, waited, threads)
    parts = cut_at_waits(pauses, waits)
    shares, blames = _shared(parts, timelines, carried)
    own = np.zeros((len(waits.owner), len(HOST)), np.int64)
    own[:, SYNC_CODE] = waits.end - waits.start
    own_blames = np.full_like(own, NO_ROW)
    own_blames[:, SYNC_CODE] = waits.row
    return Lateness(
        np.concatenate([parts.start, waits.start]), np.concatenate([shares, own]), np.concatenate([blames, own_blames])
    )


def _shared(parts: LateParts, timelines: Mapping[int, Timeline], carried: _Carried) -> tuple[Ints, Ints]:
    """Return the shares of each cause in some parts of pauses, and the slices to blame."""
    count, owner, late_ns = len(parts.owner), parts.owner, parts.end - parts.start
    stretches = hand_over(
        timelines, np.arange(count), (parts.since_thread, parts.until_thread), parts.since, parts.until
    )
    pieces = cut(timelines, stretches)
    amounts = pieces.amounts(count)
    blames = pieces.blames(count, next(iter(timelines.values())).nesting)
    amounts[amounts.sum(axis=1) == 0, OTHER_CODE] = 1
    shares = amounts * (late_ns / amounts.sum(axis=1))[:, None]
    light = list(LIGHT_CODES)
    light_ns = shares[:, light].sum(axis=1)
    # Of a pause that is cut only the first part follows a wait that began while compute ran.
    is_first = np.append(True, owner[1:] != owner[:-1])
    passed = np.where(is_first, np.minimum(light_ns, carried.waited[owner]), 0)
    keeps = np.divide(light_ns - passed, light_ns, out=np.ones(count), where=light_ns > 0)
    shares[:, light] *= keeps[:, None]
    taker = np.flatnonzero(passed > 0)
    shares[taker, carried.cause[owner[taker]]] += passed[taker]
    blames[taker, carried.cause[owner[taker]]] = carried.row[owner[taker]]
    assert shares.shape == (count, len(HOST))
    return _rounded(shares, late_ns), blames
