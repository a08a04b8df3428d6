"""The reasons why the host was late with a kernel: the causes on which its launching thread spent the time.

The state of the thread while the device is idle would mislead: after a synchronisation the device is idle while the
thread works, and in a launch-bound loop the idle part falls into the launch call, even where other work costs more. So
each launch delay is spread over the whole stretch of host time since the last compute launch whose work had begun by
then, in proportion to its causes. Time before a wait that began while compute was still running cost nothing, because
the wait would have been longer. The wait also took away the time that the host was ahead of the device: light causes
pass their share on to the wait, up to its length. Code of the program that runs for a while without a call is no delay
of a launch, and passes nothing on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import (
    HOST,
    LIGHT_CODES,
    NO_ROW,
    OTHER_CODE,
    OUTSIDE_DRIVER_CODES,
    OWN_CODE_CODES,
    SYNC_CODE,
    Flags,
    Ints,
)
from traceanalyzer.attribution.host.blocking_calls import BlockingCalls
from traceanalyzer.attribution.host.host_timeline import Timeline
from traceanalyzer.attribution.host.queues import cut, hand_over
from traceanalyzer.attribution.host.waited_ops import device_waits_of
from traceanalyzer.attribution.ledger.dependencies import Dependencies
from traceanalyzer.attribution.records.device_ops import DeviceOps

# A shorter stretch of the program's own code is what it does around a launch.
LONG_CODE_NS = 1_000_000


class LateParts(Struct, frozen=True):
    """Parts of gaps, in order: host work from `since` to `until` kept compute idle from `start` to `end`."""

    owner: Ints  # number of the gap
    since: Ints
    until: Ints
    since_thread: Ints
    until_thread: Ints
    start: Ints
    end: Ints


class WaitsInGaps(Struct, frozen=True):
    """Waits for the device that began in a gap, in order."""

    owner: Ints  # number of the gap
    start: Ints
    end: Ints
    thread: Ints
    call: Ints  # of the blocking calls


def waits_in_gaps(gaps: LateParts, calls: BlockingCalls, waited: Ints, threads: Ints) -> WaitsInGaps:
    """Return the synchronisations of some threads that lie in gaps, each from the start of its wait."""
    real = np.flatnonzero((waited > 0) & (calls.cause == SYNC_CODE) & np.isin(calls.thread, threads))
    real = real[np.argsort(calls.start[real], kind="stable")]
    release = np.maximum.accumulate(calls.release[real])
    first = np.searchsorted(calls.start[real], gaps.start, side="left")
    counts = np.maximum(0, np.searchsorted(release, gaps.until, side="right") - first)
    owner = np.repeat(np.arange(len(first)), counts)
    at = np.arange(len(owner)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    end = np.minimum(release[at], gaps.end[owner])
    # Of overlapping waits on several threads, each counts from the end of the one before it.
    before = np.where(np.append(True, owner[1:] != owner[:-1])[: len(owner)], gaps.start[owner], np.roll(end, 1))
    start = np.clip(release[at] - waited[real[at]], before, end)
    return WaitsInGaps(owner, start, end, calls.thread[real[at]], real[at])


def cut_at_waits(gaps: LateParts, waits: WaitsInGaps) -> LateParts:
    """Return gaps without the waits in them, cut there into parts."""
    inside = np.bincount(waits.owner, minlength=len(gaps.owner))
    owner = np.repeat(gaps.owner, inside + 1)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(inside + 1) - inside - 1, inside + 1)
    next_wait = np.repeat(np.cumsum(inside) - inside, inside + 1) + nth
    is_first, is_last = nth == 0, nth == inside[owner]

    def begin(first: Ints, after_wait: Ints) -> Ints:
        return _either(is_first, first[owner], after_wait, next_wait - 1)

    def end(last: Ints, at_wait: Ints) -> Ints:
        return _either(is_last, last[owner], at_wait, next_wait)

    return LateParts(
        owner,
        begin(gaps.since, waits.end),
        end(gaps.until, waits.start),
        begin(gaps.since_thread, waits.thread),
        end(gaps.until_thread, waits.thread),
        begin(gaps.start, waits.end),
        end(gaps.end, waits.start),
    )


def _either(outer: Flags, values: Ints, of_waits: Ints, wait: Ints) -> Ints:
    """Return values of gaps where `outer` holds, else values of waits."""
    found = values.copy()
    found[~outer] = of_waits[wait[~outer]]
    return found


class HostWaits(Struct, frozen=True):
    """Parts of gaps in which the host waited in a blocking call: the kernel that ended the gap, and the call."""

    kernel: Ints
    start: Ints
    end: Ints
    call: Ints


class LaunchDelayShares(Struct, frozen=True):
    """One row per part of a gap, one column per code of HOST: its share in ns, and the slice to blame.

    `waits` are the other parts of the gaps.
    """

    start: Ints
    shares: Ints
    blames: Ints
    waits: HostWaits


class _ComputeLaunches(Struct, frozen=True):
    """Launch calls of compute work in order, and when the first work of each began."""

    launch_id: Ints
    thread: Ints
    end: Ints
    begun: Ints
    since: int  # before this, nothing led to a launch

    def before(self, at: Ints, idle_from: Ints) -> tuple[Ints, Ints]:
        """Return where the host time that led to launches begins for which compute waited, and on which thread.

        That is the end of the last launch before whose work had begun by then: what was launched since may itself wait
        on the device, for a copy or another stream, while the launch that compute waited for overtakes it.
        """
        order = np.argsort(self.begun, kind="stable")
        latest = np.maximum.accumulate(np.append(NO_ROW, order))
        last = np.minimum(latest[np.searchsorted(self.begun[order], idle_from, side="right")], at - 1)
        return np.where(last < 0, self.since, self.end[last]), self.thread[np.maximum(last, 0)]


def _compute_launches(ops: DeviceOps, span_start: int) -> _ComputeLaunches:
    rows = np.flatnonzero(ops.compute & ops.linked)
    launch_id, first, launch = np.unique(ops.launch_id[rows], return_index=True, return_inverse=True)
    begun = np.full(len(launch_id), np.iinfo(np.int64).max)
    np.minimum.at(begun, launch, ops.start[rows])
    rows = rows[first]
    order = np.lexsort((launch_id, ops.launch_start[rows]))
    rows = rows[order]
    return _ComputeLaunches(
        launch_id=ops.launch_id[rows],
        thread=ops.launch_thread[rows],
        end=np.maximum.accumulate(ops.launch_end[rows]),
        begun=begun[order],
        since=min(span_start, int(ops.launch_start[rows].min(initial=span_start))),
    )


class _Carried(Struct, frozen=True):
    """For each stretch the wait for the device after which the host was no longer ahead of it, if any."""

    found: Flags
    until: Ints  # host time before this instant cost nothing
    thread: Ints
    call: Ints  # of the blocking calls
    waited: Ints  # without the time that compute was idle meanwhile, which the wait owns already


def _last_waits(calls: BlockingCalls, waited: Ints, threads: Ints, since: Ints, idle_from: Ints) -> _Carried:
    """Return for each stretch the last wait in it that began before compute became idle."""
    real = np.flatnonzero((waited > 0) & np.isin(calls.thread, threads))
    real = real[np.argsort(calls.start[real], kind="stable")]
    if not len(real):
        none = np.zeros(len(since), np.int64)
        return _Carried(none.astype(np.bool_), none, none, none, none)
    release = np.maximum.accumulate(calls.release[real])
    last = np.searchsorted(calls.start[real], idle_from, side="left") - 1
    first = np.searchsorted(release, since, side="right")
    found = last >= first
    total = np.concatenate([[0], np.cumsum(waited[real])])
    at = np.where(found, last, 0)
    missed = np.maximum(0, release[at] - idle_from)
    return _Carried(
        found,
        release[at],
        calls.thread[real[at]],
        real[at],
        np.where(found, np.maximum(0, total[last + 1] - total[np.minimum(first, last + 1)] - missed), 0),
    )


def _rounded(shares: np.ndarray[tuple[int, int], np.dtype[np.float64]], total: Ints) -> Ints:
    """Round shares down, and add the rest of each total to its largest share."""
    whole = np.floor(shares).astype(np.int64)
    largest = np.argmax(shares, axis=1)
    whole[np.arange(len(total)), largest] += total - whole.sum(axis=1)
    return whole


def explain_launch_delays(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    late_rows: Ints,
    idle_from: Ints,
    late_ns: Ints,
    span_start: int,
) -> LaunchDelayShares:
    """Split the launch delay of kernels, for which compute waited from `idle_from` on, by cause."""
    if not len(late_rows):
        none = np.zeros((0, len(HOST)), np.int64)
        return LaunchDelayShares(none[:, 0], none, none, HostWaits(*(none[:, 0],) * 4))
    launches = _compute_launches(ops, span_start)
    by_id = np.argsort(launches.launch_id, kind="stable")
    at = by_id[np.searchsorted(launches.launch_id, ops.launch_id[late_rows], sorter=by_id)]
    end = launches.end[at]
    since, since_thread = launches.before(at, idle_from)
    waited = device_waits_of(calls, ops, needs.of_calls, needs.stream)
    threads = np.unique(launches.thread)
    carried = _last_waits(calls, waited, threads, since, idle_from)
    since = np.where(carried.found, carried.until, since)
    since_thread = np.where(carried.found, carried.thread, since_thread)
    # A wait that lasts into the gap owns that part of it.
    idle_until = idle_from + late_ns
    begins = np.where(carried.found, np.clip(carried.until, idle_from, idle_until), idle_from)
    gaps = LateParts(np.arange(len(at)), since, end, since_thread, launches.thread[at], begins, idle_until)
    waits = waits_in_gaps(gaps, calls, waited, threads)
    parts = cut_at_waits(gaps, waits)
    shares, blames = _shared(parts, timelines, carried, calls)
    lasting = np.flatnonzero(begins > idle_from)
    owner = np.concatenate([waits.owner, lasting])
    held = HostWaits(
        kernel=late_rows[owner],
        start=np.concatenate([waits.start, idle_from[lasting]]),
        end=np.concatenate([waits.end, begins[lasting]]),
        call=np.concatenate([waits.call, carried.call[lasting]]),
    )
    return LaunchDelayShares(parts.start, shares, blames, held)


def _shared(
    parts: LateParts, timelines: Mapping[int, Timeline], carried: _Carried, calls: BlockingCalls
) -> tuple[Ints, Ints]:
    """Return the share of each cause in parts of gaps, and the slices to blame."""
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
    passable = (shares * (1 - pieces.long_part(count, OWN_CODE_CODES, LONG_CODE_NS, OUTSIDE_DRIVER_CODES)))[:, light]
    light_ns = passable.sum(axis=1)
    # Only the first part of a cut gap follows a wait that began while compute ran.
    is_first = np.append(True, owner[1:] != owner[:-1])
    passed = np.where(is_first, np.minimum(light_ns, carried.waited[owner]), 0)
    passes = np.divide(passed, light_ns, out=np.zeros(count), where=light_ns > 0)
    shares[:, light] -= passable * passes[:, None]
    taker = np.flatnonzero(passed > 0)
    call = carried.call[owner[taker]]
    shares[taker, calls.cause[call]] += passed[taker]
    blames[taker, calls.cause[call]] = calls.row[call]
    assert shares.shape == (count, len(HOST))
    return _rounded(shares, late_ns), blames
