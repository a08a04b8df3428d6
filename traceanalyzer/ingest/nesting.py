"""Nesting of slices: which slice encloses which on a thread, found with a stack of those that are open.

A library in C keeps the stack where it was built (`native/nesting.h`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from traceanalyzer.ingest.native import nest_natively, reader_in_use

Int = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Names: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

# Order of the columns of Nested.nearest. A slice of a module is a Python frame too.
ANCESTOR_CATEGORIES = ("cpu_op", "annotation", "python", "module")
NONE = -1
_PYTHON = ANCESTOR_CATEGORIES.index("python")
# Odd, so that no two names of one stack can cancel out; the golden ratio spreads neighbours over all 64 bits.
_STACK_FACTOR = 0x9E3779B97F4A7C15
# What is kept of an open slice: its id, thread, end, whether it has no length, stack, the place of what contains it,
# and the nearest ancestors of what lies in it. What is found of each slice: depth, parent, nearest ancestors, stack.
_OPEN_FIELDS, _FOUND_FIELDS = 6 + len(ANCESTOR_CATEGORIES), 3 + len(ANCESTOR_CATEGORIES)
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
    """Nests a sorted stream of slices batch by batch; slices still open at a batch's end are there for the next.

    A slice covers [start, end); one of length zero still encloses what starts at the same instant after it. Where
    slices cross instead of nesting, the parent is the innermost slice that is open at the start.
    """

    def __init__(self) -> None:
        self._open = np.empty((0, _OPEN_FIELDS), np.int64)
        self._nest = nest_natively if reader_in_use() == "native" else in_plain_python
        self.crossings: Counter[int] = Counter()  # by the number of the file

    @property
    def crossing_count(self) -> int:
        """How many slices cross."""
        return self.crossings.total()

    def feed(self, batch: Slices) -> Nested:
        """Nest one batch, which continues the order of the batches before it."""
        columns = [np.ascontiguousarray(column, np.int64) for column in vars(batch).values()]
        found = np.empty((_FOUND_FIELDS, len(batch)), np.int64)
        crosses = np.zeros(len(batch), np.bool_)
        stack = np.empty((len(self._open) + len(batch), _OPEN_FIELDS), np.int64)
        stack[: len(self._open)] = self._open
        self._open = stack[: self._nest(stack, len(self._open), columns, found, crosses)].copy()
        self.crossings.update((columns[0][crosses] >> FILE_BITS).tolist())
        depth, parent_id, *nearest, stack_id = found
        return Nested(depth, parent_id, tuple(nearest), stack_id)


def in_plain_python(stack: Int, depth: int, columns: Sequence[Int], found: Int, crosses: Flags) -> int:
    """Nest slices below the first `depth` of `stack`, which are open, and return how many are open then.

    `columns` are those of `Slices`. A row of `found` is filled for each column of `Nested`.
    """
    opened = stack[:depth].tolist()
    rows: list[tuple[int, ...]] = []
    for at, (slice_id, thread, start, dur, category, name_hash) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        end, is_empty = start + dur, dur <= 0
        if opened and opened[-1][1] != thread:
            opened.clear()
        while opened and not (opened[-1][2] > start or (opened[-1][3] and opened[-1][2] == start)):
            opened.pop()
        around = len(opened) - 1
        while around != NONE and opened[around][2] < end:
            around = opened[around][5]  # whatever lies between ends even earlier
        own_stack = (name_hash + (0 if around == NONE else opened[around][4] * _STACK_FACTOR)) % 2**64
        own_stack -= 2**64 if own_stack >= 2**63 else 0
        parent, _, parent_end, parent_is_empty, _, _, *nearest = (
            opened[-1] if opened else (NONE, thread, end, is_empty, 0, NONE, *[NONE] * len(ANCESTOR_CATEGORIES))
        )
        rows.append((len(opened), parent, *nearest, own_stack))
        crosses[at] = (end, is_empty) > (parent_end, parent_is_empty)
        inside = [
            slice_id if (category >= _PYTHON if code == _PYTHON else category == code) else other
            for code, other in enumerate(nearest)
        ]
        opened.append([slice_id, thread, end, is_empty, own_stack, around, *inside])
    found[:] = np.array(rows, np.int64).reshape(-1, len(found)).T
    stack[: len(opened)] = np.array(opened, np.int64).reshape(-1, stack.shape[1])
    return len(opened)


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
