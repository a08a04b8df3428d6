"""What events carry, as JSON objects: joined as columns, never object by object."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.xla.events import LineEvents
from traceanalyzer.ingest.xla.space import Plane, Space
from traceanalyzer.ingest.xla.stats import (
    BYTES,
    INT,
    UINT,
    Stats,
    Value,
    codes_of_used,
    distinct,
    distinct_values,
    indices,
    one_value,
)
from traceanalyzer.ingest.xla.wire import Int

_FIELDS: dict[str, pa.DataType] = {"event_id": pa.int64(), "args": pa.string()}
_SCHEMA = pa.schema(_FIELDS)


class ArgumentWriter:
    """Writes the arguments of the events of one plane; texts are made once for each different value."""

    def __init__(self, space: Space, plane: Plane) -> None:
        self._space = space
        self._plane = plane
        self._of_names: dict[int, list[tuple[str, str]]] = {}

    def rows(self, events: LineEvents) -> pa.Table:
        """Return the rows of the canonical table of events that carry anything."""
        stats = _first_of_each(events.stats.taken(np.flatnonzero(events.stats.kind != BYTES)), self._plane)
        has_stats = np.zeros(len(events), np.bool_)
        has_stats[stats.owner] = True
        ends = self._ends(events, stats, has_stats)
        if not len(stats) and not any(ends[1]):
            return _SCHEMA.empty_table()
        return self._joined(events, stats, ends, has_stats)

    def _ends(self, events: LineEvents, stats: Stats, has_stats: npt.NDArray[np.bool_]) -> tuple[Int, list[str]]:
        """Return for each event a place in a list of texts: what its name carries, without what it carries itself."""
        names = events.name
        carried = np.isin(names, self._plane.event_stats.owner)
        if not carried.any():
            return np.zeros(len(events), np.int64), [""]
        # Nearly all events of one name carry the same keys; a hash of the keys shows those that differ.
        key_hash = np.zeros(len(events), np.int64)
        with np.errstate(over="ignore"):
            np.add.at(key_hash, stats.owner, (stats.key + 1) * np.int64(-7046029254386353131))
        pairs = np.stack([np.where(carried, names, -1), np.where(carried, key_hash, 0)], axis=1)
        _, first, place = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        owner_starts = np.searchsorted(stats.owner, first)
        owner_ends = np.searchsorted(stats.owner, first + 1)
        texts = []
        for event, begin, end in zip(first.tolist(), owner_starts.tolist(), owner_ends.tolist(), strict=True):
            own = {self._plane.stat_names[key] for key in stats.key[begin:end].tolist()}
            pieces = [text for key, text in self._named(int(names[event])) if key not in own] if carried[event] else []
            texts.append("".join(pieces))
        return place.reshape(-1), texts

    def _named(self, name: int) -> list[tuple[str, str]]:
        """Return what a name of an event carries: keys with their texts."""
        if name not in self._of_names:
            stats = self._plane.event_stats
            begin, end = np.searchsorted(stats.owner, [name, name + 1]).tolist()
            found: dict[str, str] = {}
            for row in range(begin, end):
                key = self._plane.stat_names[int(stats.key[row])]
                if int(stats.kind[row]) != BYTES and key not in found:
                    found[key] = _piece(key, one_value(self._space, self._plane, stats, row))
            self._of_names[name] = list(found.items())
        return self._of_names[name]

    def _joined(
        self, events: LineEvents, stats: Stats, ends: tuple[Int, list[str]], has_stats: npt.NDArray[np.bool_]
    ) -> pa.Table:
        """Lay all pieces of all events behind each other: an object is then a stretch of one text."""
        place, texts = ends
        has_end = np.array([bool(text) for text in texts], np.bool_)[place]
        kept = np.flatnonzero(has_stats | has_end)
        new_place = np.full(len(events), -1, np.int64)
        new_place[kept] = np.arange(len(kept))
        pieces, order_of_piece = self._pieces(stats)
        closing = pa.array([f"{text}}}" for text in texts], pa.large_string())
        counts = np.bincount(new_place[stats.owner], minlength=len(kept))
        last = np.cumsum(counts + 1) - 1
        order = np.empty(len(stats) + len(kept), np.int64)
        slots = np.arange(len(stats)) + new_place[stats.owner]
        order[slots] = order_of_piece
        order[last] = len(pieces) + place[kept]
        whole: Any = pa.concat_arrays([pieces, closing]).take(indices(order))
        bounds = np.frombuffer(whole.buffers()[1], np.int64, count=len(order) + 1)
        content: Any = np.frombuffer(whole.buffers()[2], np.uint8).copy()
        starts: Any = np.concatenate([[0], bounds[last + 1]])
        # Each piece begins with a comma: that of the first one opens the object.
        content[starts[:-1]] = ord("{")
        if len(content) < 2**31:
            bounds_32: Any = starts.astype(np.int32)
            args: Any = pa.StringArray.from_buffers(len(kept), pa.py_buffer(bounds_32), pa.py_buffer(content))
        else:
            args = pa.LargeStringArray.from_buffers(len(kept), pa.py_buffer(starts), pa.py_buffer(content))
        return pa.table({"event_id": pa.array(events.event_id[kept]), "args": args.cast(pa.string())})

    def _pieces(self, stats: Stats) -> tuple[pa.Array[Any], Int]:
        """Return texts, and for each value the place of its text."""
        order = np.empty(len(stats), np.int64)
        parts: list[pa.Array[Any]] = []
        done = 0
        is_number = (stats.kind == INT) | (stats.kind == UINT)
        for rows, make in (
            (np.flatnonzero(is_number), self._number_pieces),
            (np.flatnonzero(~is_number), self._text_pieces),
        ):
            if len(rows):
                texts, places = make(stats.taken(rows))
                order[rows] = places + done
                done += len(texts)
                parts.append(texts)
        return (pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())), order

    def _number_pieces(self, stats: Stats) -> tuple[pa.Array[Any], Int]:
        """Return the texts of whole numbers, each once, as far as numbers are of a usual size."""
        first = place = np.arange(len(stats))
        name_count = len(self._plane.stat_names)
        is_large = (stats.kind == UINT) & (stats.value < 0)
        if not is_large.any() and int(np.abs(stats.value).max()) < 2**62 // name_count:
            first, place = distinct(stats.value * name_count + stats.key)
        stats, is_large = stats.taken(first), is_large[first]
        prefixes: Any = pa.array([f",{_quoted(name)}:" for name in self._plane.stat_names], pa.large_string())
        texts: Any = pc.cast(pa.array(stats.value), pa.large_string())
        if is_large.any():
            large = pc.cast(pa.array(stats.value.view(np.uint64)), pa.large_string())
            texts = pc.if_else(pa.array(is_large), large, texts)
        joined = pc.binary_join_element_wise(prefixes.take(indices(stats.key)), texts, pa.scalar("", pa.large_string()))
        return joined, place

    def _text_pieces(self, stats: Stats) -> tuple[pa.Array[Any], Int]:
        """Return the texts of other values, each once: references and doubles repeat, and texts are few."""
        places, values = distinct_values(self._space, self._plane, stats)
        pairs = places * len(self._plane.stat_names) + stats.key
        first, place = distinct(pairs)
        names = self._plane.stat_names
        dumped = [_json_of(value) for value in values]
        texts = [f",{_quoted(names[pair % len(names)])}:{dumped[pair // len(names)]}" for pair in pairs[first].tolist()]
        return pa.array(texts, pa.large_string()), place


@lru_cache(2**16)
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _piece(key: str, value: Value) -> str:
    """Return a key with its value behind a comma."""
    return f",{_quoted(key)}:{_json_of(value)}"


def _json_of(value: Value) -> str:
    """Return a value as JSON; what it has no number for is null."""
    if isinstance(value, float):
        value = value if math.isfinite(value) else None
    return json.dumps(value, ensure_ascii=False)


def _first_of_each(stats: Stats, plane: Plane) -> Stats:
    """Return stats without later ones of the same name in the same event."""
    if not len(stats):
        return stats
    names: dict[str, int] = {}
    number = codes_of_used(stats.key, plane.stat_names, lambda name: names.setdefault(name, len(names)))
    # An event with two of a name has one bit twice: then the sum of the bits is not their union.
    bits = np.left_shift(np.int64(1), number % 62)
    starts = np.flatnonzero(np.append(True, stats.owner[1:] != stats.owner[:-1]))
    doubtful = np.add.reduceat(bits, starts) != np.bitwise_or.reduceat(bits, starts)
    if not doubtful.any():
        return stats
    events = stats.owner[starts[doubtful]]
    rows = np.flatnonzero(np.isin(stats.owner, events))
    pairs = np.stack([stats.owner[rows], number[rows]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    repeated = np.ones(len(rows), np.bool_)
    repeated[first] = False
    kept = np.ones(len(stats), np.bool_)
    kept[rows[repeated]] = False
    return stats.taken(np.flatnonzero(kept))
