"""Places of names by their ids, which are any numbers of 64 bits; a place, once given, stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.xla.wire import Int

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
