"""Nesting of slices: who encloses whom on a thread, found in vectors instead of a loop over events."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

# Order of the columns of Nested.nearest.
ANCESTOR_CATEGORIES = ("cpu_op", "annotation", "python")
NONE = -1


@dataclass(frozen=True)
class Slices:
    """Slices sorted by thread, start, longer first, id; category is an index of ANCESTOR_CATEGORIES or NONE."""

    slice_id: Int
    thread_id: Int
    start_ns: Int
    dur_ns: Int
    category: Int

    def __len__(self) -> int:
        return len(self.slice_id)


@dataclass(frozen=True)
class Nested:
    """For each slice its depth, its parent and its nearest ancestor of each category, as ids or NONE."""

    depth: Int
    parent_id: Int
    nearest: tuple[Int, ...]


class Nester:
    """Nests a sorted stream of slices batch by batch; slices still open at a batch's end are carried into the next.

    A slice covers [start, end); one of length zero still encloses what starts at the same instant after it. Where
    slices cross instead of nesting, the parent is the innermost slice that is open at the start.
    """

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self._carry = Slices(empty, empty, empty, empty, empty)
        self.crossing_count = 0

    def feed(self, batch: Slices) -> Nested:
        """Nest one batch, which continues the order of the batches before it."""
        carried = len(self._carry)
        rows = _concatenate(self._carry, batch) if carried else batch
        opens, closes = _instants(rows)
        group = _thread_groups(rows.thread_id)
        parent, depth, crossing = _enclose(opens, closes, group)
        self.crossing_count += int(crossing[carried:].sum())
        nearest = _nearest_ancestors(parent, depth, rows.category)
        if len(rows):
            self._carry = _ancestry_of_last(rows, parent)
        ids = np.append(rows.slice_id, NONE)
        return Nested(depth[carried:], ids[parent[carried:]], tuple(ids[found[carried:]] for found in nearest))


def _concatenate(first: Slices, second: Slices) -> Slices:
    return Slices(
        np.concatenate([first.slice_id, second.slice_id]),
        np.concatenate([first.thread_id, second.thread_id]),
        np.concatenate([first.start_ns, second.start_ns]),
        np.concatenate([first.dur_ns, second.dur_ns]),
        np.concatenate([first.category, second.category]),
    )


def _instants(rows: Slices) -> tuple[Int, Int]:
    """Return half-open bounds from the earliest start, doubled: a zero-length slice outlasts its own instant."""
    opens = (rows.start_ns - (rows.start_ns.min() if len(rows) else 0)) * 2
    return opens, opens + np.where(rows.dur_ns > 0, rows.dur_ns * 2, 1)


def _thread_groups(thread_id: Int) -> Int:
    """Number the runs of equal thread ids 0, 1, 2 …"""
    return np.concatenate([[0], np.cumsum(thread_id[1:] != thread_id[:-1])]).astype(np.int64)[: len(thread_id)]


def _enclose(opens: Int, closes: Int, group: Int) -> tuple[Int, Int, npt.NDArray[np.bool_]]:
    """Return each slice's parent index, its depth, and whether it sticks out of its parent."""
    depth = _open_count(opens, closes, group)
    parent = _last_one_level_up(depth)
    has_parent = parent != NONE
    crossing = has_parent & ((closes > closes[parent]) | (closes[parent] <= opens))
    if crossing.any():
        # Counting opens is only the nesting where slices nest; each family of slices that cross is walked one by one.
        root = np.cumsum(depth == 0) - 1
        for family in np.unique(root[crossing]):
            first, last = np.searchsorted(root, [family, family + 1])
            _walk(opens, closes, parent, depth, int(first), int(last))
        crossing = (parent != NONE) & (closes > closes[parent])
    return parent, depth, crossing


def _open_count(opens: Int, closes: Int, group: Int) -> Int:
    """Count the slices of the same thread that are open when each one starts."""
    if not len(opens):
        return np.empty(0, np.int64)
    order = np.lexsort((closes, group))
    span = int(closes.max()) + 1
    if (int(group[-1]) + 1) * span < 2**62:
        closed = np.searchsorted(group[order] * span + closes[order], group * span + opens, side="right")
    else:
        closed = np.empty(len(opens), np.int64)
        bounds = np.searchsorted(group, np.arange(int(group[-1]) + 2))
        for first, last in pairwise(bounds):
            closed[first:last] = first + np.searchsorted(closes[order[first:last]], opens[first:last], side="right")
    return np.arange(len(opens), dtype=np.int64) - closed


def _last_one_level_up(depth: Int) -> Int:
    """Return for each slice the last one before it that is one level shallower."""
    count = len(depth)
    index = np.arange(count, dtype=np.int64)
    key = np.sort(depth * count + index)
    found = np.searchsorted(key, (depth - 1) * count + index, side="left") - 1
    return np.where(depth > 0, key[found] % max(count, 1), NONE)


def _walk(opens: Int, closes: Int, parent: Int, depth: Int, first: int, last: int) -> None:
    stack: list[int] = []
    starts, ends = opens[first:last].tolist(), closes[first:last].tolist()
    for index in range(last - first):
        while stack and ends[stack[-1]] <= starts[index]:
            stack.pop()
        parent[first + index] = first + stack[-1] if stack else NONE
        depth[first + index] = len(stack)
        stack.append(index)


def _nearest_ancestors(parent: Int, depth: Int, category: Int) -> tuple[Int, ...]:
    """Return, a category, the index of each slice's nearest ancestor of it."""
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2 if len(depth) else 1))
    found = tuple(np.full(len(depth), NONE, np.int64) for _ in ANCESTOR_CATEGORIES)
    for first, last in pairwise(levels[1:]):
        slices = order[first:last]
        above = parent[slices]
        for code, nearest in enumerate(found):
            nearest[slices] = np.where(category[above] == code, above, nearest[above])
    return found


def _ancestry_of_last(rows: Slices, parent: Int) -> Slices:
    """Return the last slice and its ancestors: all that a later slice of the thread can lie in."""
    chain = []
    index = len(rows) - 1
    while index != NONE:
        chain.append(index)
        index = int(parent[index])
    keep = np.array(chain[::-1], np.int64)
    return Slices(
        rows.slice_id[keep], rows.thread_id[keep], rows.start_ns[keep], rows.dur_ns[keep], rows.category[keep]
    )
