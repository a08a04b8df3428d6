"""How much of a stretch of host time belongs to which cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import HOST, Codes, Ints
from traceanalyzer.attribution.host_timeline import Timeline


@dataclass(frozen=True)
class Stretches:
    """Stretches of host time, each one of a thread; several may belong to one owner."""

    owner: Ints
    thread: Ints
    start: Ints
    end: Ints


@dataclass(frozen=True)
class Pieces:
    """Stretches cut where the cause changes."""

    owner: Ints
    state: Codes
    row: Ints
    dur: Ints

    def amounts(self, owners: int) -> Ints:
        """Return the time of each cause, one row an owner, one column a code of HOST."""
        key = self.owner * len(HOST) + self.state
        sums = np.bincount(key, weights=self.dur, minlength=owners * len(HOST))
        return sums.astype(np.int64).reshape(owners, len(HOST))

    def blames(self, owners: int) -> Ints:
        """Return the slice of the longest piece of each cause, shaped as `amounts`; NO_ROW for none."""
        rows = np.full(owners * len(HOST), NO_ROW)
        order = np.argsort(self.dur, kind="stable")
        rows[self.owner[order] * len(HOST) + self.state[order]] = self.row[order]
        return rows.reshape(owners, len(HOST))


def hand_over(
    timelines: Mapping[int, Timeline], owner: Ints, threads: tuple[Ints, Ints], start: Ints, end: Ints
) -> Stretches:
    """Return stretches that begin on one thread and end on another.

    The earlier thread holds until the first event of the later one: a thread that waits for another shows nothing.
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
    # Before the first piece nothing is recorded: index -1 finds that at the end.
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
