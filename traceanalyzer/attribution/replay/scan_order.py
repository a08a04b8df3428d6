"""The order of the replay: launches and waits of the host, call by call, and the host time of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import BlockingCalls
from traceanalyzer.attribution.host.host_costs import cut, hand_over
from traceanalyzer.attribution.host.host_timeline import Timeline
from traceanalyzer.attribution.host.queues import LoaderTakes
from traceanalyzer.attribution.records.device_ops import DeviceOps


class HostCalls(Struct, frozen=True):
    """The host calls of the scan, in order: launches, waits for the device, and batches taken from workers."""

    start: Ints
    end: Ints
    thread: Ints
    wait: Ints  # row of the blocking calls; NO_ROW: not a blocking call
    take: Ints  # row of the loader takes; NO_ROW: not a take
    launch_id: Ints
    pays: Flags  # the call itself costs host time; False: it spends its time waiting


def host_calls(
    ops: DeviceOps, calls: BlockingCalls, takes: LoaderTakes, chain: Ints, full: Flags, since: int
) -> HostCalls:
    """Return the launches, waits and takes of the threads in `chain` at or after an instant.

    A take has no length: the call after it pays its cost.
    """
    mine = np.flatnonzero(ops.linked & np.isin(ops.launch_thread, chain) & (ops.launch_start >= since))
    launch_id, first = np.unique(ops.launch_id[mine], return_index=True)
    rows = mine[first]
    waits = np.flatnonzero(np.isin(calls.thread, chain) & (calls.start >= since))
    blocked = np.isin(ops.op_id[rows], calls.copy_op[calls.copy_op != NO_ROW]) | full[rows]
    taken = np.flatnonzero(np.isin(takes.thread, chain) & (takes.start >= since))
    start = np.concatenate([ops.launch_start[rows], calls.start[waits], takes.start[taken]])
    no_launch, no_wait, no_take = (np.full(len(part), NO_ROW) for part in (rows, waits, taken))
    kind = np.repeat(np.arange(3), [len(rows), len(waits), len(taken)])
    order = np.lexsort((kind, start))
    return HostCalls(
        start[order],
        np.concatenate([ops.launch_end[rows], calls.end[waits], takes.start[taken]])[order],
        np.concatenate([ops.launch_thread[rows], calls.thread[waits], takes.thread[taken]])[order],
        np.concatenate([no_launch, waits, no_take])[order],
        np.concatenate([no_launch, no_wait, taken])[order],
        np.concatenate([launch_id, no_wait, no_take])[order],
        np.concatenate([~blocked, np.zeros(len(waits) + len(taken), np.bool_)])[order],
    )


def call_costs(timelines: Mapping[int, Timeline], host: HostCalls, since: int) -> Ints:
    """Return the host time by cause between each call and the one before it, with the call's own cost if it pays."""
    count = len(host.start)
    done = np.maximum(np.concatenate([[since], np.maximum.accumulate(host.end)[:-1]])[:count], since)
    until = np.where(host.pays, host.end, host.start)
    thread = np.concatenate([host.thread[:1], host.thread[:-1]])
    stretches = hand_over(timelines, np.arange(count), (thread, host.thread), done, np.maximum(done, until))
    return cut(timelines, stretches).amounts(count)


class ScanOrder(Struct, frozen=True):
    """The events by position: what each is, and the call whose cost comes before it (NO_ROW: none)."""

    op: Ints
    wait: Ints
    take: Ints
    full: Flags  # a wait for room in the launch queue, by the op after it
    call: Ints


def scan_order(ops: DeviceOps, host: HostCalls, included: Flags, full: Flags) -> ScanOrder:
    """Return the events of a scan: included ops ordered by launch, and waiting calls ordered by start."""
    rows = np.flatnonzero(included)
    by_launch = np.argsort(host.launch_id, kind="stable")
    at = np.searchsorted(host.launch_id, ops.launch_id[rows], sorter=by_launch)
    call = by_launch[np.minimum(at, len(by_launch) - 1)] if len(by_launch) else np.full(len(rows), NO_ROW)
    chained = ops.linked[rows] & (host.launch_id[call] == ops.launch_id[rows]) if len(by_launch) else call != NO_ROW
    call = np.where(chained, call, NO_ROW)
    key = np.where(chained, host.start[call] if len(by_launch) else 0, ops.start[rows])
    key = np.where(ops.linked[rows] & ~chained, ops.launch_start[rows], key)
    key = np.where(ops.linked[rows], key, np.minimum(key, _launched_after(ops, rows, key)))
    queued = np.flatnonzero(full[rows])
    waits = np.flatnonzero((host.wait != NO_ROW) | (host.take != NO_ROW))
    op = np.concatenate([rows, rows[queued], np.full(len(waits), NO_ROW)])
    time = np.concatenate([key, key[queued], host.start[waits]])
    # Order within one instant: the wait for room, then the ops that it let through, then the wait for one of them.
    phase = np.concatenate([np.ones(len(rows)), np.zeros(len(queued)), np.full(len(waits), 2)]).astype(np.int64)
    order = np.lexsort((op, phase, time))
    none = np.full(len(rows) + len(queued), NO_ROW)
    return ScanOrder(
        np.where(phase == 1, op, NO_ROW)[order],
        np.concatenate([none, host.wait[waits]])[order],
        np.concatenate([none, host.take[waits]])[order],
        (phase == 0)[order],
        np.concatenate([call, call[queued], waits])[order],
    )


def _launched_after(ops: DeviceOps, rows: Ints, key: Ints) -> Ints:
    """Return for each op the earliest launch among the ops that run after it.

    An op without a known launch was queued before those ops, and events that wait for it need it scanned before them.
    """
    order = np.argsort(ops.start[rows], kind="stable")
    launched = np.where(ops.linked[rows], key, np.iinfo(np.int64).max)[order]
    earliest = np.empty_like(launched)
    earliest[order] = np.minimum.accumulate(launched[::-1])[::-1]
    return earliest
