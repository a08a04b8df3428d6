"""Nesting of slices: which slice encloses which on a thread, found with vectors instead of a loop over events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

Int = npt.NDArray[np.int64]
Names: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

# Order of the columns of Nested.nearest. A slice of a module is a Python frame too.
ANCESTOR_CATEGORIES = ("cpu_op", "annotation", "python", "module")
NONE = -1
_PYTHON = ANCESTOR_CATEGORIES.index("python")
# Odd, so that no two names of one stack can cancel out; the golden ratio spreads neighbours over all 64 bits.
_STACK_FACTOR = np.int64(-7046029254386353131)
# A level of slices costs in vectors what about so many slices cost one by one.
_ROWS_WORTH_A_LEVEL = 32
# Keeping one slice around an outlasting one open costs at most what a stack takes for so many slices.
_ROWS_WORTH_AN_ANCESTOR = 16
_ROUNDS = 4
# Where slices of several files are nested together, the number of the file stands above so many bits of their ids.
FILE_BITS = 32


@dataclass(frozen=True)
class Slices:
    """Slices sorted by thread, start, longer first, id; category is an index of ANCESTOR_CATEGORIES or NONE.

    Equal names have equal `name_hash`, a number of 64 bits.
    """

    slice_id: Int
    thread_id: Int
    start_ns: Int
    dur_ns: Int
    category: Int
    name_hash: Int

    def __len__(self) -> int:
        return len(self.slice_id)


@dataclass(frozen=True)
class Nested:
    """For each slice its depth, its parent and its nearest ancestor of each category, as ids or NONE, and its stack.

    Slices have the same `stack_id` if their names and those of all that contain them are the same, in the same order.
    What ends before a slice does not contain it: then its stack goes on from the innermost ancestor that does.
    """

    depth: Int
    parent_id: Int
    nearest: tuple[Int, ...]
    stack_id: Int


class Nester:
    """Nests a sorted stream of slices batch by batch; slices still open at a batch's end are carried into the next.

    A slice covers [start, end); one of length zero still encloses what starts at the same instant after it. Where
    slices cross instead of nesting, the parent is the innermost slice that is open at the start.
    """

    def __init__(self) -> None:
        empty = np.empty(0, np.int64)
        self._carry = Slices(empty, empty, empty, empty, empty, empty)
        self._carried_ends = empty  # as recorded; the carried slices count as open for longer where others outlast them
        self.crossings: Counter[int] = Counter()  # by the number of the file

    @property
    def crossing_count(self) -> int:
        """How many slices cross."""
        return self.crossings.total()

    def feed(self, batch: Slices) -> Nested:
        """Nest one batch, which continues the order of the batches before it."""
        carried = len(self._carry)
        rows = _concatenate(self._carry, batch) if carried else batch
        ends = np.concatenate([self._carried_ends, batch.start_ns + batch.dur_ns])
        opens, closes = _instants(rows)
        group = _thread_groups(rows.thread_id)
        parent, depth = _enclose(opens, closes, group)
        crossing = (parent != NONE) & (closes > closes[parent])
        self.crossings.update((rows.slice_id[carried:][crossing[carried:]] >> FILE_BITS).tolist())
        nearest, stack = _ancestry(parent, depth, rows, _containers(parent, ends))
        if len(rows):
            chain = _chain_of_last(parent)
            self._carry = _taken(rows, chain, (_open_until(closes[chain]) - opens[chain]) // 2)
            self._carried_ends = ends[chain]
        ids = np.append(rows.slice_id, NONE)
        return Nested(
            depth[carried:], ids[parent[carried:]], tuple(ids[found[carried:]] for found in nearest), stack[carried:]
        )


def _concatenate(first: Slices, second: Slices) -> Slices:
    return Slices(
        np.concatenate([first.slice_id, second.slice_id]),
        np.concatenate([first.thread_id, second.thread_id]),
        np.concatenate([first.start_ns, second.start_ns]),
        np.concatenate([first.dur_ns, second.dur_ns]),
        np.concatenate([first.category, second.category]),
        np.concatenate([first.name_hash, second.name_hash]),
    )


def _instants(rows: Slices) -> tuple[Int, Int]:
    """Return half-open bounds from the earliest start, doubled: a zero-length slice outlasts its own instant."""
    opens = (rows.start_ns - (rows.start_ns.min() if len(rows) else 0)) * 2
    return opens, opens + np.where(rows.dur_ns > 0, rows.dur_ns * 2, 1)


def _thread_groups(thread_id: Int) -> Int:
    """Number the runs of equal thread ids 0, 1, 2 …"""
    return np.concatenate([[0], np.cumsum(thread_id[1:] != thread_id[:-1])]).astype(np.int64)[: len(thread_id)]


def _enclose(opens: Int, closes: Int, group: Int) -> tuple[Int, Int]:
    """Return each slice's parent index and its depth.

    Counting the open slices finds both where slices nest. One that another outlasts stays open for as long as that one:
    with a few such slices, all nest after a few rounds. On threads where they do not, a stack finds parents and depths.
    """
    until = closes
    for _ in range(_ROUNDS):
        depth = _open_count(opens, until, group)
        parent = _last_one_level_up(_levels(depth), len(depth))
        outlasting = np.flatnonzero((parent != NONE) & (until > until[parent]) & (until[parent] > opens))
        if not len(outlasting):
            return parent, depth
        if int(depth[outlasting].sum()) * _ROWS_WORTH_AN_ANCESTOR > len(opens):
            break
        until = _kept_open(parent, opens, until, outlasting)
    at = np.flatnonzero(np.isin(group, group[outlasting]))
    above, depth[at] = _enclose_crossing(opens[at], closes[at], group[at])
    parent[at] = np.where(above != NONE, at[above], NONE)
    return parent, depth


def _kept_open(parent: Int, opens: Int, until: Int, outlasting: Int) -> Int:
    """Return until when slices are open once those that lie around an outlasting one are open for as long as it is."""
    longer = until.copy()
    for at in outlasting.tolist():
        inner, around, end = at, parent[at], longer[at]
        while around != NONE and opens[inner] < longer[around] < end:
            longer[around] = end
            inner, around = around, parent[around]
    return longer


def _enclose_crossing(opens: Int, closes: Int, group: Int) -> tuple[Int, Int]:
    """Return what `_enclose` does for any slices: one that ends before its innermost descendant waits below it."""
    starts, ends, threads = opens.tolist(), closes.tolist(), group.tolist()
    parent, depth = [], []
    stack: list[int] = []
    thread = NONE
    for at, start in enumerate(starts):
        if threads[at] != thread:
            thread = threads[at]
            stack.clear()
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        parent.append(stack[-1] if stack else NONE)
        depth.append(len(stack))
        stack.append(at)
    return np.array(parent, np.int64), np.array(depth, np.int64)


def _open_until(closes: Int) -> Int:
    """Return until when each slice of a chain counts as open: until it and all that lie in it have ended."""
    latest: Int = np.maximum.accumulate(closes[::-1])[::-1]
    return latest


def _open_count(opens: Int, closes: Int, group: Int) -> Int:
    """Count the slices of the same thread that are open when each one starts."""
    if not len(opens):
        return np.empty(0, np.int64)
    span = int(closes.max()) + 1
    if (int(group[-1]) + 1) * span < 2**62:
        offset = group * span
        closed = np.searchsorted(np.sort(offset + closes), offset + opens, side="right")
    else:
        closed = np.empty(len(opens), np.int64)
        for first, last in pairwise(np.searchsorted(group, np.arange(int(group[-1]) + 2)).tolist()):
            closed[first:last] = first + np.searchsorted(np.sort(closes[first:last]), opens[first:last], side="right")
    return np.arange(len(opens), dtype=np.int64) - closed


def _levels(depth: Int) -> list[Int]:
    """Return the positions of the slices of each depth, in order."""
    deepest = int(depth.max()) if len(depth) else -1
    # Of narrow integers numpy sorts digit by digit, in linear time.
    narrow = depth.astype(np.uint16) if deepest < 2**16 else depth
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth, minlength=deepest + 1))[:-1]) if len(depth) else []


def _last_one_level_up(levels: list[Int], count: int) -> Int:
    """Return for each slice the last one before it that is one level shallower."""
    parent = np.full(count, NONE, np.int64)
    for above, below in pairwise(levels):
        parent[below] = above[np.searchsorted(above, below) - 1]
    return parent


def _containers(parent: Int, ends: Int) -> Int:
    """Return each slice's innermost ancestor that does not end before it."""
    container = parent.copy()
    for at in np.flatnonzero((parent != NONE) & (ends[parent] < ends)).tolist():
        around, end = container[at], ends[at]
        while around != NONE and ends[around] < end:
            around = container[around]  # whatever lies between ends even earlier
        container[at] = around
    return container


def _ancestry(parent: Int, depth: Int, rows: Slices, container: Int) -> tuple[tuple[Int, ...], Int]:
    """Return, a category, the index of each slice's nearest ancestor of it; and the stack of each slice."""
    levels = _levels(depth)
    if len(levels) * _ROWS_WORTH_A_LEVEL > len(rows):
        return _ancestry_of_few_a_level(parent, rows, container)
    found = tuple(np.full(len(depth), NONE, np.int64) for _ in ANCESTOR_CATEGORIES)
    stack = rows.name_hash.copy()
    for slices in levels[1:]:
        above = parent[slices]
        kind = rows.category[above]
        for code, nearest in enumerate(found):
            is_of_it = kind >= _PYTHON if code == _PYTHON else kind == code
            nearest[slices] = np.where(is_of_it, above, nearest[above])
        around = container[slices]
        stack[slices] += np.where(around == NONE, 0, stack[around]) * _STACK_FACTOR
    return found, stack


def _ancestry_of_few_a_level(parent: Int, rows: Slices, container: Int) -> tuple[tuple[Int, ...], Int]:
    """Return what `_ancestry` does, slice by slice."""
    nobody = (NONE,) * len(ANCESTOR_CATEGORIES)
    codes = [NONE, *range(len(ANCESTOR_CATEGORIES))]
    counts_as = {kind: [kind >= _PYTHON if code == _PYTHON else kind == code for code in codes[1:]] for kind in codes}
    nearest: list[tuple[int, ...]] = []
    within: list[tuple[int, ...]] = []  # the nearest of what lies directly in a slice
    stack: list[int] = []
    columns = (parent.tolist(), container.tolist(), rows.category.tolist(), rows.name_hash.tolist())
    for at, (above, around, kind, name_hash) in enumerate(zip(*columns, strict=True)):
        nearest.append(nobody if above == NONE else within[above])
        within.append(
            nearest[at]
            if kind == NONE
            else tuple(at if own else other for own, other in zip(counts_as[kind], nearest[at], strict=True))
        )
        outer = 0 if around == NONE else stack[around] * int(_STACK_FACTOR)
        stack.append((name_hash + outer) % 2**64)
    found = np.array(nearest, np.int64).reshape(-1, len(nobody))
    return tuple(np.ascontiguousarray(column) for column in found.T), np.array(stack, np.uint64).view(np.int64)


def _chain_of_last(parent: Int) -> Int:
    """Return the indexes of the last slice and its ancestors: all that a later slice of the thread can lie in."""
    chain = []
    index = len(parent) - 1
    while index != NONE:
        chain.append(index)
        index = int(parent[index])
    return np.array(chain[::-1], np.int64)


def _taken(rows: Slices, keep: Int, open_ns: Int) -> Slices:
    """Return some slices as long as they are open."""
    return Slices(
        rows.slice_id[keep],
        rows.thread_id[keep],
        rows.start_ns[keep],
        open_ns,
        rows.category[keep],
        rows.name_hash[keep],
    )


def name_hashes(names: Names) -> Int:
    """Return a number of 64 bits for each name; equal names have equal numbers, in every trace."""
    column = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    coded = column.dictionary_encode(null_encoding="encode")
    hashes: Int = np.array([_name_hash(text) for text in coded.dictionary.to_pylist()], np.int64)
    codes: Int = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return hashes[codes]


def _name_hash(name: str | None) -> int:
    number: int = xxhash.xxh3_64_intdigest((name or "").encode("utf-8", "surrogatepass"))
    return number - 2**64 if number >= 2**63 else number
