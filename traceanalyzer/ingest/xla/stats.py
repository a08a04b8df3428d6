"""The values that events carry: who has which, in columns, and as JSON.

Names are found by their ids, which are any numbers of 64 bits; a place, once given, stays."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.xla.wire import BLOCK, FIXED64, VARINT, Decoder, Int

if TYPE_CHECKING:
    from traceanalyzer.ingest.xla.defects import ProfileDefects

_EMPTY = np.empty(0, np.int64)


def indices(places: Int, mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Int64Array:
    """Return places as Arrow takes them; those that are masked are NULL."""
    found: pa.Int64Array = pa.array(places, pa.int64(), mask=mask)
    return found


def distinct(values: Int) -> tuple[Int, Int]:
    """Return where each different number stands first, and for each number the place among the different ones."""
    coded = pa.array(values).dictionary_encode()
    place: Int = coded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(coded.dictionary), np.int64)
    first[place[::-1]] = np.arange(len(values) - 1, -1, -1)
    return first, place


def codes_of_used(places: Int, names: Sequence[str], code_of: Callable[[str], int]) -> Int:
    """Return the code of the name at each place; names that stand at none are not asked for."""
    used = np.flatnonzero(np.bincount(places, minlength=len(names)))
    codes = np.zeros(len(names), np.int64)
    codes[used] = [code_of(names[place]) for place in used.tolist()]
    return codes[places]


class NamePlaces:
    """The places of ids in a list of names."""

    def __init__(self, ids: Int) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._places = ids[order], order

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, ids: Int) -> tuple[Int, Int]:
        """Return the place of each id, and the ids that have got a new one now: in order, behind all others."""
        place, known = self._look_up(ids)
        unknown = _EMPTY if known.all() else np.unique(ids[~known])
        if len(unknown):
            both = np.concatenate([self._ids, unknown])
            places = np.concatenate([self._places, len(self._ids) + np.arange(len(unknown))])
            order = np.argsort(both, kind="stable")
            self._ids, self._places = both[order], places[order]
            place, _ = self._look_up(ids)
        return (self._places[place] if len(self._ids) else _EMPTY), unknown

    def _look_up(self, ids: Int) -> tuple[Int, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Return where each id stands or would stand in order, and which ids are known."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
        place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return place, self._ids[place] == ids


class HasText(Protocol):
    """The file that values lie in."""

    @property
    def decoder(self) -> Decoder: ...
    @property
    def view(self) -> memoryview: ...
    @property
    def defects(self) -> ProfileDefects: ...
    @property
    def most_text_bytes(self) -> int: ...
    def text(self, start: int, end: int) -> str: ...


class HasNames(Protocol):
    """The plane whose names values may refer to."""

    @property
    def stat_names(self) -> list[str]: ...
    def stat_places(self, ids: Int) -> Int: ...


Value: TypeAlias = "float | int | str | None"

# The field of a stat that holds its value: its kind.
DOUBLE, UINT, INT, TEXT, BYTES, REF, PACKED_TEXT = range(2, 9)
_WIRES = {DOUBLE: FIXED64, UINT: VARINT, INT: VARINT, TEXT: BLOCK, BYTES: BLOCK, REF: VARINT, PACKED_TEXT: BLOCK}
_IS_VALUE_TAG = np.isin(np.arange(PACKED_TEXT + 2 << 3), [kind << 3 | wire for kind, wire in _WIRES.items()])
_MOST_PACKED_BYTES = 2**20


@dataclass
class Stats:
    """Values of events (or of names of events), event by event and in order as written."""

    owner: Int  # place of the event
    key: Int  # id of the name as written, then its place among the plane's names
    kind: Int
    value: Int  # 64 bits of a number; of a text where it starts in the file; of a reference the id it names
    length: Int  # of a text

    @staticmethod
    def none() -> Stats:
        return Stats(*(np.empty(0, np.int64) for _ in range(5)))

    def columns(self) -> tuple[Int, Int, Int, Int, Int]:
        return self.owner, self.key, self.kind, self.value, self.length

    def taken(self, rows: Int) -> Stats:
        return Stats(*(column[rows] for column in self.columns()))

    def __len__(self) -> int:
        return len(self.owner)


def decode_stats(decoder: Decoder, owner: Int, starts: Int, ends: Int) -> Stats:
    """Return the values that messages from `starts` to `ends` hold, with the ids of their names as keys."""
    columns = decoder.columns(starts, ends)
    count = len(starts)
    key = columns.last(1, count)
    rows = np.flatnonzero(_IS_VALUE_TAG[np.minimum(columns.tag, len(_IS_VALUE_TAG) - 1)])
    kind, value, length = (np.zeros(count, np.int64) for _ in range(3))
    at = columns.owner[rows]
    kind[at], value[at], length[at] = columns.tag[rows] >> 3, columns.value[rows], columns.length[rows]
    if (kind == 0).any():
        known = np.flatnonzero(kind)
        return Stats(owner, key, kind, value, length).taken(known)
    return Stats(owner, key, kind, value, length)


def one_value(space: HasText, plane: HasNames, stats: Stats, row: int) -> Value:
    """Return a value as Python has it; None for bytes."""
    kind, value, length = int(stats.kind[row]), int(stats.value[row]), int(stats.length[row])
    if kind == DOUBLE:
        return float(stats.value[row : row + 1].view(np.float64)[0])
    if kind == UINT:
        return value % 2**64
    if kind == INT:
        return value
    if kind == TEXT:
        return space.text(value, value + length)
    if kind == REF:
        return plane.stat_names[int(plane.stat_places(np.array([value]))[0])]
    if kind == PACKED_TEXT:
        return _unpacked(space, value, length)
    return None


def _unpacked(space: HasText, start: int, length: int) -> str | None:
    """Return a text that was packed with gzip, as far as it is of a length that profilers write."""
    reader = zlib.decompressobj(wbits=31)
    try:
        return reader.decompress(bytes(space.view[start : start + length]), _MOST_PACKED_BYTES).decode(errors="replace")
    except (zlib.error, gzip.BadGzipFile):
        return None


class Picker:
    """Picks single values of a batch of events by the name of the value; the first of a name counts in each event.

    What an event does not carry itself it has from its name: `names` are the places of names, `of_names` picks theirs.
    """

    def __init__(
        self,
        space: HasText,
        plane: HasNames,
        stats: Stats,
        count: int,
        names: Int = _EMPTY,
        of_names: Picker | None = None,
    ) -> None:
        self._space = space
        self._plane = plane
        self._stats = stats
        self._count = count
        self._names = names
        self._of_names = of_names
        self._by_name: dict[str, list[int]] = {}
        used = np.flatnonzero(np.bincount(stats.key)) if len(stats) else stats.key
        for place in used.tolist():
            self._by_name.setdefault(plane.stat_names[place], []).append(place)

    def picked(self, name: str) -> Stats:
        """Return the value of a name of each event that has one, in the order of events."""
        places = self._by_name.get(name, [])
        found = Stats.none()
        if places:
            rows = np.flatnonzero(np.isin(self._stats.key, places) if len(places) > 1 else self._stats.key == places[0])
            owner = self._stats.owner[rows]
            is_first = np.append(True, owner[1:] != owner[:-1])
            found = self._stats.taken(rows if is_first.all() else rows[is_first])
        return found if self._of_names is None else self._with_shared(found, self._of_names.picked(name))

    def _with_shared(self, found: Stats, shared: Stats) -> Stats:
        """Return values of events with those of the names of all other events."""
        if not len(shared):
            return found
        row_of_name = np.full(int(max(self._names.max(initial=-1), shared.owner[-1])) + 1, -1, np.int64)
        row_of_name[shared.owner] = np.arange(len(shared))
        row = row_of_name[self._names]
        row[found.owner] = -1
        events = np.flatnonzero(row >= 0)
        added = shared.taken(row[events])
        added.owner = events
        both = Stats(*(np.concatenate(pair) for pair in zip(found.columns(), added.columns(), strict=True)))
        return both.taken(np.argsort(both.owner, kind="stable"))

    def has(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which events have a value of a name."""
        found = np.zeros(self._count, np.bool_)
        found[self.picked(name).owner] = True
        return found

    def integers(self, name: str) -> tuple[Int, Int]:
        """Return the events that have a whole number of a name, also as text, and the numbers modulo 2^64."""
        stats = self.picked(name)
        if ((stats.kind == INT) | (stats.kind == UINT)).all():
            return stats.owner, stats.value
        owner: list[int] = []
        numbers: list[int] = []
        for row, event in enumerate(stats.owner.tolist()):
            number = _whole(one_value(self._space, self._plane, stats, row))
            if number is not None:
                owner.append(event)
                numbers.append(number)
        return np.array(owner, np.int64), np.array(numbers, np.int64)

    def doubles(self, name: str) -> dict[int, float]:
        values = self.values(name)
        return {event: float(value) for event, value in values.items() if isinstance(value, (int, float))}

    def values(self, name: str) -> dict[int, Value]:
        stats = self.picked(name)
        if not len(stats):
            return {}
        places, values = distinct_values(self._space, self._plane, stats)
        return {owner: values[place] for owner, place in zip(stats.owner.tolist(), places.tolist(), strict=True)}

    def codes(self, name: str) -> tuple[Int, list[str | None]]:
        """Return for each event a place in a list of texts; the last one of the list is for events that have none."""
        stats = self.picked(name)
        texts: list[str | None] = []
        codes = np.full(self._count, -1, np.int64)
        if len(stats):
            place, values = distinct_values(self._space, self._plane, stats)
            texts = [None if value is None else str(value) for value in values]
            codes[stats.owner] = place
        codes[codes < 0] = len(texts)
        return codes, [*texts, None]


def distinct_values(space: HasText, plane: HasNames, stats: Stats) -> tuple[Int, list[Value]]:
    """Return for each value its place in a list that holds each value once, or nearly so."""
    places = np.empty(len(stats), np.int64)
    values: list[Value] = []
    is_text = stats.kind == TEXT
    rows = np.flatnonzero(is_text)
    if len(rows):
        coded = _gathered(space, stats.value[rows], stats.length[rows]).dictionary_encode()
        places[rows] = coded.indices.to_numpy()
        padded = [text or b"" for text in coded.dictionary.to_pylist()]
        values += [_decoded(space, text[8 : 8 + int.from_bytes(text[:8], "little")]) for text in padded]
    rows = np.flatnonzero(~is_text)
    if len(rows):
        # A number and a reference are known by their bits, a packed text by its place.
        with np.errstate(over="ignore"):
            mixed = stats.value[rows] * 16 + stats.kind[rows]
        if ((stats.value[rows] >> 58) != (stats.value[rows] >> 63)).any():
            pairs = np.stack([stats.value[rows], stats.kind[rows]], axis=1)
            _, first, place = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        else:
            first, place = distinct(mixed)
        places[rows] = place.reshape(-1) + len(values)
        values += _values_of(space, plane, stats, rows[first])
    return places, values


def _values_of(space: HasText, plane: HasNames, stats: Stats, rows: Int) -> list[Value]:
    """Return the values of rows; references are looked up together."""
    refs = np.flatnonzero(stats.kind[rows] == REF)
    named = dict(zip(refs.tolist(), plane.stat_places(stats.value[rows[refs]]).tolist(), strict=True))
    return [
        plane.stat_names[named[place]] if place in named else one_value(space, plane, stats, row)
        for place, row in enumerate(rows.tolist())
    ]


def _gathered(space: HasText, starts: Int, lengths: Int) -> pa.Array[Any]:
    """Return stretches of the file as one array, each as its length in eight bytes, and itself in words of eight that
    zeros fill up; longer ones than profilers write are cut."""
    lengths = np.minimum(lengths, space.most_text_bytes)
    sizes = (lengths + 15) // 8
    after = np.cumsum(sizes)
    words = np.arange(int(after[-1]))
    words -= np.repeat(after - sizes + 1, sizes)
    words *= 8
    words += np.repeat(starts, sizes)
    content: Any = space.decoder.words(np.maximum(words, 0))
    content[after - sizes] = lengths
    ragged = np.flatnonzero(lengths % 8)
    content[after[ragged] - 1] &= np.uint64(2**64 - 1) >> (64 - lengths[ragged] % 8 * 8).astype(np.uint64)
    bounds: Any = np.concatenate([[0], after * 8])
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(content.view(np.uint8))]
    )


def _decoded(space: HasText, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        space.defects.add("invalid-utf8", example=content.decode(errors="replace"))
        return content.decode(errors="replace")


def _whole(value: Value) -> int | None:
    from traceanalyzer.ingest.xla.wire import signed

    try:
        return None if value is None else signed(int(value))
    except (ValueError, OverflowError):
        return None
