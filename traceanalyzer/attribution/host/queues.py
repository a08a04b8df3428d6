"""Stretches of host time, summed by cause, and the queues of the issuing thread.

Launches may find the device's queue full, and batches of loader workers may not be ready. If the host comes earlier to
a batch that is not ready, it only waits longer. Most traces do not record the workers. What is known: a worker gets its
next batch when the host takes an earlier one. So a batch can be ready earlier by at most as much as the earlier one is
taken earlier, and it is never ready later than it was. The trace does not show how well the workers would keep up in
between, nor for batches that were ready when the host took them.

Workers that cannot keep up at all are different: each starts its next batch at once, so the host does not change when
its batches are ready. If such workers are equally fast, the host waits for one batch in every N, with N workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import HOST, NO_ROW, Codes, Flags, Floats, Ints
from traceanalyzer.attribution.host.host_timeline import Nesting, Timeline
from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.attribution.records.host_slices import HostSlices

# Below this amount the slice of the longest piece is blamed; above it, the slice that holds most of the time.
HELD_MIN_NS = 100_000


class Stretches(Struct, frozen=True):
    """Stretches of host time, each on one thread; several may belong to one owner."""

    owner: Ints
    thread: Ints
    start: Ints
    end: Ints


class Pieces(Struct, frozen=True):
    """Stretches cut where the cause changes."""

    owner: Ints
    state: Codes
    row: Ints
    dur: Ints

    def amounts(self, owners: int) -> Ints:
        """Return the time of each cause, one row per owner, one column per code of HOST."""
        key = self.owner * len(HOST) + self.state
        sums = np.bincount(key, weights=self.dur, minlength=owners * len(HOST))
        return sums.astype(np.int64).reshape(owners, len(HOST))

    def long_part(self, owners: int, states: tuple[int, ...], least: int, around: tuple[int, ...]) -> Floats:
        """Return the part of each cause, shaped as `amounts`, that lies in runs of `states` of a least length.

        States `around` do not end a run, and count in its length.
        """
        key = self.owner * len(HOST) + self.state
        same = np.where(np.isin(self.state, around), self.owner * len(HOST) + around[0], key)
        run = np.cumsum(np.append(True, np.diff(same) != 0)) - 1 if len(key) else key
        length = np.bincount(run, weights=self.dur)[run] if len(key) else self.dur
        long = np.isin(self.state, states) & (length >= least)
        sums = np.bincount(key[long], weights=self.dur[long], minlength=owners * len(HOST)).reshape(owners, len(HOST))
        amounts = self.amounts(owners)
        return np.divide(sums, amounts, out=np.zeros(sums.shape), where=amounts > 0)

    def blames(self, owners: int, nesting: Nesting) -> Ints:
        """Return the slice to blame for each cause, shaped as `amounts`; NO_ROW for none.

        It is the slice of the longest piece. Where many pieces make up a large amount, it is the innermost slice of
        that cause that contains most of it: a wait for the data loader is not the fault of its longest operator.
        """
        key = self.owner * len(HOST) + self.state
        rows = np.full(owners * len(HOST), NO_ROW)
        longest = np.zeros(owners * len(HOST), np.int64)
        order = np.argsort(self.dur, kind="stable")
        rows[key[order]] = self.row[order]
        longest[key[order]] = self.dur[order]
        amounts = self.amounts(owners).ravel()
        has_slice = self.row != NO_ROW
        named = np.bincount(key[has_slice], weights=self.dur[has_slice], minlength=len(rows))
        scattered = (amounts >= HELD_MIN_NS) & (longest < amounts // 2) & (named >= amounts // 2)
        of_key = np.flatnonzero(scattered[key] & has_slice)
        if len(of_key):
            _hold(rows, amounts, _held(key[of_key], self.row[of_key], self.dur[of_key], amounts, nesting))
        return rows.reshape(owners, len(HOST))


class _Held(Struct, frozen=True):
    """The time of each owner's cause that lies inside each slice, nested slices included."""

    key: Ints
    row: Ints
    dur: Ints


def _held(key: Ints, row: Ints, dur: Ints, amounts: Ints, nesting: Nesting) -> _Held:
    """Return what slices hold of each key's time, from the innermost outwards until one holds most of its amount."""
    around = nesting.around(row)
    is_found = np.zeros(len(amounts), np.bool_)
    parts = []
    while len(row):
        depth = nesting.depth[row]
        is_deepest = depth == depth.max()
        level = _merged(key[is_deepest], row[is_deepest], dur[is_deepest])
        parts.append(level)
        # A slice with more than half decides its key: those around it are not the innermost, those beside it hold less.
        is_found[level.key[level.dur > amounts[level.key] - amounts[level.key] // 2]] = True
        above = around(level.row)
        climbs = above != NO_ROW
        key, row, dur = (
            np.concatenate([rest[~is_deepest], risen[climbs]])
            for rest, risen in ((key, level.key), (row, above), (dur, level.dur))
        )
        open_ones = ~is_found[key]
        key, row, dur = key[open_ones], row[open_ones], dur[open_ones]
    return _merged(
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.dur for part in parts]),
    )


def _merged(key: Ints, row: Ints, dur: Ints) -> _Held:
    """Return the sum per key and row, sorted by both."""
    order = np.lexsort((row, key))
    key, row = key[order], row[order]
    begins = np.flatnonzero(np.append(True, (np.diff(key) != 0) | (np.diff(row) != 0)))
    return _Held(key[begins], row[begins], np.add.reduceat(dur[order], begins))


def _hold(rows: Ints, amounts: Ints, held: _Held) -> None:
    """Blame in `rows` the innermost slice that holds half of an amount; where none does, the one that holds most."""
    most = np.zeros(len(rows), np.int64)
    np.maximum.at(most, held.key, held.dur)
    enough = held.dur >= np.minimum(most, amounts // 2)[held.key]
    # Of slices inside each other the inner one comes later.
    rows[held.key[enough]] = held.row[enough]


def hand_over(
    timelines: Mapping[int, Timeline], owner: Ints, threads: tuple[Ints, Ints], start: Ints, end: Ints
) -> Stretches:
    """Return stretches that begin on one thread and end on another.

    A stretch counts to the earlier thread until the first event of the later one, since a thread that waits for another
    records nothing.
    """
    first, second = threads
    switch = np.where(first == second, start, end)
    for thread, timeline in timelines.items():
        on_thread = np.flatnonzero((second == thread) & (first != second))
        at = np.searchsorted(timeline.event_start, start[on_thread])
        known = at < len(timeline.event_start)
        switch[on_thread[known]] = np.minimum(timeline.event_start[at[known]], end[on_thread[known]])
    return Stretches(
        np.concatenate([owner, owner]),
        np.concatenate([first, second]),
        np.concatenate([start, switch]),
        np.concatenate([switch, end]),
    )


def _cut(timeline: Timeline, owner: Ints, start: Ints, end: Ints) -> Pieces:
    first = np.searchsorted(timeline.start, start, side="right") - 1
    last = np.searchsorted(timeline.start, end, side="left")
    counts = last - first
    offsets = np.cumsum(counts) - counts
    # In place: there are as many pieces as slices, and fresh memory costs time.
    at = np.repeat(first - offsets, counts)
    at += np.arange(len(at))
    bounds = np.append(timeline.start, np.iinfo(np.int64).max)
    dur = bounds[at + 1]
    np.minimum(dur, np.repeat(end, counts), out=dur)
    low = bounds[at]
    low[at < 0] = np.iinfo(np.int64).min
    np.maximum(low, np.repeat(start, counts), out=low)
    dur -= low
    # Index -1 reads the appended element: the state before the first piece.
    state = np.append(timeline.state, np.int8(timeline.unrecorded))[at]
    row = np.append(timeline.row, NO_ROW)[at]
    return Pieces(np.repeat(owner, counts), state, row, dur)


def cut(timelines: Mapping[int, Timeline], stretches: Stretches) -> Pieces:
    """Cut stretches into pieces of one cause each."""
    parts = []
    for thread in np.unique(stretches.thread).tolist():
        on_thread = np.flatnonzero((stretches.thread == thread) & (stretches.end > stretches.start))
        parts.append(
            _cut(timelines[thread], stretches.owner[on_thread], stretches.start[on_thread], stretches.end[on_thread])
        )
    if not parts:
        none = np.zeros(0, np.int64)
        return Pieces(none, none.astype(np.int8), none, none)
    if len(parts) == 1:
        return parts[0]
    return Pieces(
        np.concatenate([part.owner for part in parts]),
        np.concatenate([part.state for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.dur for part in parts]),
    )


# A CUDA channel holds about a thousand launches: a long call with this many outstanding waited for room.
FULL_QUEUE_MIN_OPS = 512
FULL_QUEUE_MIN_NS = 40_000
# The shortest calls did not wait. Longer calls may have, and a call twice as long seldom has another reason.
UNHINDERED_QUANTILE = 0.01
JITTER_NS = 1_000
JITTER_SHARE = 0.15
WAITED_MIN_NS = 5_000
# Queues of other depths show themselves: most long launches have as many outstanding as the trace ever has.
FULL_QUEUE_SHARE = 0.9
FULL_QUEUE_MIN_LAUNCHES = 10
FULL_QUEUE_MIN_DEPTH = 8

_LONG_AGO = int(np.iinfo(np.int64).min)
_NEVER = int(np.iinfo(np.int64).max)


class FullQueue(Struct, frozen=True):
    """Which launch calls waited for room in the queue, by op; a graph launch counts to its first op."""

    waited: Flags
    wait_ns: Ints  # how much longer the call took than calls that did not wait
    freed: Ints  # op whose end made room; NO_ROW: none


def find_full_queue(ops: DeviceOps) -> FullQueue:
    """Return the launches of a device's ops that waited for room.

    Where the depth of the queue is known, every launch at that depth that took longer than usual waited.
    """
    linked = np.flatnonzero(ops.linked)
    _, first, of_call = np.unique(ops.launch_id[linked], return_index=True, return_inverse=True)
    calls = linked[first]
    requested, returned = ops.launch_start[calls], ops.launch_end[calls]
    dur = returned - requested
    kinds = _kinds(ops, calls)
    usual = np.zeros(len(calls), np.int64)
    for kind in kinds:
        usual[kind] = np.quantile(dur[kind], UNHINDERED_QUANTILE)
    # A call that returns after its own work is done waited for that work, like a copy from pageable memory.
    longer = np.where(ops.end[calls] > returned, dur - usual, 0)
    slow = longer > np.maximum(JITTER_NS, JITTER_SHARE * usual)
    long = longer > np.maximum(usual, WAITED_MIN_NS)
    before = _queued_before(ops)
    known = np.concatenate([before, linked])
    in_ops = _Queue.of(ops.launch_start[linked], ops.end[known], len(before))
    hindered = (in_ops.outstanding(requested) >= FULL_QUEUE_MIN_OPS) & slow & (dur > FULL_QUEUE_MIN_NS)
    hindered |= in_ops.is_full(requested, long)
    if len(calls) < len(linked):
        # A graph may take one place in the queue, or one per node: the trace does not show which.
        done = np.zeros(len(calls), np.int64)
        np.maximum.at(done, of_call, ops.end[linked])
        ends = np.concatenate([ops.end[before], done])
        hindered |= _Queue.of(requested, ends, len(before)).is_full(requested, long)
    by_end = known[np.argsort(ops.end[known], kind="stable")]
    last = np.searchsorted(in_ops.ends, returned, side="right") - 1
    made_room = (last >= 0) & (in_ops.ends[np.maximum(last, 0)] > requested)
    waiting = hindered & slow & made_room
    for kind in kinds:
        unhindered = kind[~hindered[kind]]
        usual[kind] = np.median(dur[unhindered]) if len(unhindered) else usual[kind]
    full_queue = FullQueue(np.zeros(ops.count, np.bool_), np.zeros(ops.count, np.int64), np.full(ops.count, NO_ROW))
    rows = calls[waiting]
    full_queue.waited[rows] = True
    full_queue.wait_ns[rows] = np.maximum(0, dur - usual)[waiting]
    full_queue.freed[rows] = by_end[last[waiting]]
    return full_queue


class _Queue(Struct, frozen=True):
    """When entries were put into the queue and when they were done, each sorted."""

    launched: Ints
    ends: Ints

    @classmethod
    def of(cls, launched: Ints, ends: Ints, before: int) -> Self:
        """Return a queue that held `before` entries at the first launch."""
        return cls(np.sort(np.concatenate([np.full(before, _LONG_AGO), launched])), np.sort(ends))

    def outstanding(self, at: Ints) -> Ints:
        """Return how many entries were in the queue at each instant."""
        return np.searchsorted(self.launched, at) - np.searchsorted(self.ends, at, side="right")

    def is_full(self, requested: Ints, long: Flags) -> Flags:
        """Return which instants have about the largest depth; none if long launches do not mostly happen there."""
        deepest = int(
            (np.arange(len(self.launched)) - self.ends.searchsorted(self.launched, side="right")).max(initial=0)
        )
        crowded = self.outstanding(requested) >= FULL_QUEUE_SHARE * max(deepest, FULL_QUEUE_MIN_DEPTH)
        shown = int((crowded & long).sum()) >= max(FULL_QUEUE_MIN_LAUNCHES, long.sum() / 2)
        full: Flags = crowded & shown
        return full


def _kinds(ops: DeviceOps, calls: Ints) -> list[Ints]:
    """Return positions of calls with similar durations: launches of graphs, and all others."""
    graphs = ops.launch_name.where(lambda name: name is not None and "GraphLaunch" in name)[calls]
    return [kind for kind in (np.flatnonzero(graphs), np.flatnonzero(~graphs)) if len(kind)]


def _queued_before(ops: DeviceOps) -> Ints:
    """Return the ops that were in the queue when the recording of launches began."""
    linked = np.flatnonzero(ops.linked)
    first_start = ops.start[linked].min(initial=_NEVER) if len(linked) else _LONG_AGO
    return np.flatnonzero(~ops.linked & (ops.start < first_start))


_TAKE = re.compile(r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\.__next__")
# Taking a batch that is ready only passes a handle to its memory, which takes less: a millisecond, or this share of the
# time between batches, since a handle to a large batch takes longer.
READY_NS = 1_000_000
READY_SHARE = 0.02
# Waits have a rhythm if so many, and this share, come the same number of batches after another wait.
MIN_REPEATS = 3
MIN_REPEATED_SHARE = 0.98


class LoaderTakes(Struct, frozen=True):
    """Batches in the order in which the host took them."""

    thread: Ints
    start: Ints
    end: Ints

    @property
    def waited(self) -> Flags:
        """Return which batches the thread waited for."""
        between_ns = float(np.median(np.diff(self.start))) if len(self.start) > 1 else 0.0
        is_late: Flags = self.end - self.start > max(READY_NS, READY_SHARE * between_ns)
        return is_late

    def held_by(self) -> Ints:
        """Return for each batch the row of the batch whose shift limits its own; NO_ROW for the first.

        It is the previous late batch of the same worker if there is a rhythm, else the last batch that was ready: it
        cannot lower the shift of earlier batches.
        """
        waited = self.waited
        at = np.arange(len(waited))
        ready = np.maximum.accumulate(np.where(waited, NO_ROW, at))
        ready_before = np.concatenate([[NO_ROW], ready])[: len(at)]
        found = np.where(ready_before == NO_ROW, at - 1, ready_before)
        every = _rhythm(waited)
        same = np.flatnonzero(waited[every:] & waited[: len(at) - every]) + every if every else at[:0]
        found[same] = same - every
        return found


def find_batch_fetches(slices: HostSlices) -> LoaderTakes:
    """Return the batches that some threads took from workers, without batches made in the thread itself."""
    rows = np.flatnonzero(slices.flags([bool(_TAKE.search(name)) for name in slices.names]))
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return LoaderTakes(slices.thread[rows], slices.start[rows], slices.end[rows])


def _rhythm(waited: Flags) -> int:
    """Return the smallest number of batches after which the host waits again; 0: there is no rhythm."""
    for every in range(1, len(waited) // MIN_REPEATS + 1):
        later = waited[every:]
        repeats = int((later & waited[:-every]).sum())
        if repeats >= max(MIN_REPEATS, MIN_REPEATED_SHARE * int(later.sum())):
            return every
    return 0
