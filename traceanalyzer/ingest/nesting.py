"""Nesting of slices: which slice encloses which on a thread, found with a stack of those that are open.

A library in C keeps the stack where it was built (`native/nesting.h`). Slices are sorted before, by a part of a file of
any length at a time.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from msgspec import Struct
from msgspec.structs import astuple

from traceanalyzer.ingest.native import nest_natively, reader_in_use

Int = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Names: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

# Order of the columns of Nested.nearest. A slice of a module is a Python frame too.
ANCESTOR_CATEGORIES = ("cpu_op", "annotation", "python", "module")
# The columns of what is nearest, in the same order.
_NEAREST = ("op_id", "annotation_id", "python_id", "module_id")
NONE = -1
_PYTHON = ANCESTOR_CATEGORIES.index("python")
# Odd, so that no two names of one stack can cancel out; the golden ratio spreads neighbours over all 64 bits.
_STACK_FACTOR = 0x9E3779B97F4A7C15
# What is kept of an open slice: its id, thread, end, whether it has no length, stack, the place of what contains it,
# and the nearest ancestors of what lies in it. What is found of each slice: depth, parent, nearest ancestors, stack.
_OPEN_FIELDS, _FOUND_FIELDS = 6 + len(ANCESTOR_CATEGORIES), 3 + len(ANCESTOR_CATEGORIES)
# Where slices of several files are nested together, the number of the file stands above so many bits of their ids.
FILE_BITS = 32


class Slices(Struct, frozen=True):
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


class Nested(Struct, frozen=True):
    """For each slice its depth, its parent and its nearest ancestor of each category, as ids or NONE, and its stack.

    Slices have the same `stack_id` if their names and those of all that contain them are the same, in the same order.
    What ends before a slice does not contain it: then its stack goes on from the innermost ancestor that does.
    """

    depth: Int
    parent_id: Int
    nearest: tuple[Int, ...]
    stack_id: Int

    def columns(self, first: int = 0, last: int | None = None) -> dict[str, pa.Array[Any]]:
        """Return the columns of the canonical table that say this of some slices, by default of all."""
        ids = zip(("parent_id", *_NEAREST), (self.parent_id, *self.nearest), strict=True)
        plain = {"depth": self.depth, "stack_id": self.stack_id}
        columns = {name: pa.array(values[first:last]) for name, values in plain.items()}
        return columns | {name: id_column(values[first:last]) for name, values in ids}


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
        columns = [np.ascontiguousarray(column, np.int64) for column in astuple(batch)]
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


# So many bytes are sorted at once. More lie sorted in files, of which blocks are read.
_SORTED_BYTES = 64 * 2**20
_BLOCK_ROWS, BATCH_ROWS = 8_192, 131_072
_SMALL = 2**16


def in_order(batches: Iterable[pa.RecordBatch], scratch: Path) -> Iterator[pa.RecordBatch]:
    """Draw slices, and return them by their columns `thread`, `start_ns`, `dur_ns` (longer first) and `slice_id`.

    `scratch` is a folder for those that memory is not to hold.
    """
    blocks: list[Iterator[pa.RecordBatch]] = []
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    with ExitStack() as files:
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes >= _SORTED_BYTES:
                file = files.enter_context(tempfile.TemporaryFile(dir=scratch))
                blocks.append(_written(_sorted(held), file))
                size_bytes = 0
        if held:
            blocks.append(_cut(_sorted(held), _BLOCK_ROWS if blocks else BATCH_ROWS))
        return _batches(blocks, files.pop_all())


# Records of one event lie so near each other once they are in order: others of the same times may lie between them.
_MOST_TIED = 4


class Once:
    """Leaves out slices that are written twice, and counts them; those of no length may well be several.

    `alike` are the columns, besides thread and times, in which the records of one slice are equal.
    """

    def __init__(self, alike: Sequence[str]) -> None:
        self._alike = list(alike)
        self._before: pa.RecordBatch | None = None  # the last rows of the batch before
        self.left_out = 0

    def each(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield slices, which come in order, each once."""
        for batch in batches:
            before, self._before = self._before, batch.slice(max(len(batch) - _MOST_TIED, 0))
            known = 0 if before is None else len(before)
            rows = batch if before is None else cast(Any, pa).concat_batches([before, batch])
            repeated = self._repeated(rows)[known:]
            if repeated.any():
                self.left_out += int(repeated.sum())
                batch = batch.filter(pa.array(~repeated))
            yield batch

    def _repeated(self, rows: pa.RecordBatch) -> Flags:
        thread, start, dur, _ = _keys(rows)
        repeated = np.zeros(len(rows), np.bool_)
        for apart in range(1, min(_MOST_TIED, len(rows) - 1) + 1):
            tied = (start[apart:] == start[:-apart]) & (dur[apart:] == dur[:-apart]) & (dur[apart:] > 0)
            at = np.flatnonzero(tied & (thread[apart:] == thread[:-apart]))
            if not len(at):
                continue
            one, other = (
                rows.select(self._alike).take(pa.array(place, pa.int64())).to_pylist() for place in (at, at + apart)
            )
            repeated[at[[a == b for a, b in zip(one, other, strict=True)]] + apart] = True
        return repeated


def _batches(blocks: Sequence[Iterator[pa.RecordBatch]], files: ExitStack) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = 0
    with files:
        for parts in _merged(blocks):
            held += parts
            rows += sum(map(len, parts))
            if rows >= BATCH_ROWS:
                yield _sorted(held)
                rows = 0
        if held:
            yield _sorted(held)


def _written(rows: pa.RecordBatch, file: Any) -> Iterator[pa.RecordBatch]:
    """Write rows to a file, and yield them as they are read again."""
    with pa.ipc.new_stream(file, rows.schema) as stream:
        for block in _cut(rows, _BLOCK_ROWS):
            stream.write_batch(block)
    file.seek(0)
    return iter(pa.ipc.open_stream(file))


def _cut(rows: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    return (rows.slice(first, most) for first in range(0, len(rows), most))


def _merged(sources: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Yield what comes next of sorted blocks, a part of each that has any."""
    heads = [_Head(block, source) for source in sources if (block := next(source, None)) is not None]
    while heads:
        bound = min(head.last for head in heads)
        yield [part for head in heads if len(part := head.taken(bound))]
        heads = [head for head in heads if head.is_filled()]


class _Head:
    """What is left of a block of sorted slices, and the blocks behind it."""

    def __init__(self, block: pa.RecordBatch, source: Iterator[pa.RecordBatch]) -> None:
        self._source = source
        self._begin(block)

    def _begin(self, block: pa.RecordBatch) -> None:
        self._block, self._at, self._keys = block, 0, _keys(block)
        self.last = self._key(len(block) - 1)

    def _key(self, row: int) -> tuple[int, int, int, int]:
        thread, start, dur, slice_id = (int(key[row]) for key in self._keys)
        return thread, start, -dur, slice_id

    def taken(self, bound: tuple[int, int, int, int]) -> pa.RecordBatch:
        """Take the slices up to a bound."""
        first, end = self._at, len(self._block)
        if self.last > bound:
            end = first if self._key(first) > bound else bisect_right(range(end), bound, first, key=self._key)
        self._at = end
        return self._block.slice(first, end - first)

    def is_filled(self) -> bool:
        """Return whether there is more, out of the next block where this one is used up."""
        if self._at == len(self._block):
            block = next(self._source, None)
            if block is None:
                return False
            self._begin(block)
        return True


def _keys(rows: pa.RecordBatch) -> list[npt.NDArray[Any]]:
    return [rows.column(name).to_numpy() for name in ("thread", "start_ns", "dur_ns", "slice_id")]


def _sorted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches, which are let go, in order."""
    (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches
    batches.clear()
    threads = cast(Any, rows.column("thread")).dictionary_encode()
    ranks = np.argsort(np.argsort(threads.dictionary.to_numpy()))
    codes = ranks[threads.indices.to_numpy()].astype(np.uint16 if len(ranks) < _SMALL else np.int64)
    _, start, dur, slice_id = _keys(rows)
    # Rows come nearly in the order of their starts, and small numbers are sorted by counting.
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(codes[order], kind="stable")]
    follows = (start[order][1:] == start[order][:-1]) & (codes[order][1:] == codes[order][:-1])
    if follows.any():
        tied = np.flatnonzero(np.append(follows, False) | np.append(False, follows))
        own = order[tied]
        order[tied] = own[np.lexsort((slice_id[own], -dur[own], start[own], codes[own]))]
    return rows if (order[1:] > order[:-1]).all() else rows.take(cast("pa.Int64Array", pa.array(order)))


def ancestor_codes(names: Sequence[Any], codes: npt.NDArray[Any]) -> Int:
    """Return the places of categories, given by name and code, among those that are looked for above a slice."""
    places = [ANCESTOR_CATEGORIES.index(name) if name in ANCESTOR_CATEGORIES else NONE for name in names]
    found: Int = np.array(places, np.int64)[codes]
    return found


def id_column(ids: Int) -> pa.Array[Any]:
    """Return ids as a column, with NONE as NULL."""
    return pa.array(ids, mask=ids == NONE)
