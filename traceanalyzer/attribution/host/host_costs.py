"""Stretches of host time, summed by cause."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import HOST, Codes, Floats, Ints
from traceanalyzer.attribution.host.host_timeline import Nesting, Timeline

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

    def long_part(self, owners: int, states: tuple[int, ...], least: int) -> Floats:
        """Return the part of each cause, shaped as `amounts`, that lies in runs of `states` of a least length."""
        key = self.owner * len(HOST) + self.state
        run = np.cumsum(np.append(True, np.diff(key) != 0)) - 1 if len(key) else key
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
        mine = np.flatnonzero(scattered[key] & has_slice)
        if len(mine):
            _hold(rows, amounts, _held(key[mine], self.row[mine], self.dur[mine], nesting))
        return rows.reshape(owners, len(HOST))


class _Held(Struct, frozen=True):
    """The time of each owner's cause that lies inside each slice, nested slices included."""

    key: Ints
    row: Ints
    dur: Ints


def _held(key: Ints, row: Ints, dur: Ints, nesting: Nesting) -> _Held:
    parts = []
    while len(row):
        # Few slices contain many pieces: merged first, they climb to their parents faster.
        level = _merged(key, row, dur)
        parts.append(level)
        above = nesting.around(level.row)
        inside = above != NO_ROW
        key, row, dur = level.key[inside], above[inside], level.dur[inside]
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
    """Set, in place, the innermost slice that contains most of an amount; else one that contains as much as any."""
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
        mine = np.flatnonzero((second == thread) & (first != second))
        at = np.searchsorted(timeline.event_start, start[mine])
        known = at < len(timeline.event_start)
        switch[mine[known]] = np.minimum(timeline.event_start[at[known]], end[mine[known]])
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
    at = np.repeat(first - offsets, counts) + np.arange(int(counts.sum()))
    bounds = np.append(timeline.start, np.iinfo(np.int64).max)
    inside = at >= 0
    low = np.maximum(np.where(inside, bounds[at], np.iinfo(np.int64).min), np.repeat(start, counts))
    high = np.minimum(bounds[at + 1], np.repeat(end, counts))
    # Index -1 reads the appended element: the state before the first piece.
    state = np.append(timeline.state, np.int8(timeline.unrecorded))[at]
    row = np.append(timeline.row, NO_ROW)[at]
    return Pieces(np.repeat(owner, counts), state, row, high - low)


def cut(timelines: Mapping[int, Timeline], stretches: Stretches) -> Pieces:
    """Cut stretches into pieces of one cause each."""
    parts = []
    for thread in np.unique(stretches.thread).tolist():
        mine = np.flatnonzero((stretches.thread == thread) & (stretches.end > stretches.start))
        parts.append(_cut(timelines[thread], stretches.owner[mine], stretches.start[mine], stretches.end[mine]))
    if not parts:
        none = np.zeros(0, np.int64)
        return Pieces(none, none.astype(np.int8), none, none)
    return Pieces(
        np.concatenate([part.owner for part in parts]),
        np.concatenate([part.state for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.dur for part in parts]),
    )
