"""Places of names by their ids, which are any numbers of 64 bits; a place, once given, stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.xla.wire import Int


def indices(places: Int, mask: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Int64Array:
    """Return places as Arrow takes them; those that are masked are NULL."""
    found: pa.Int64Array = pa.array(places, pa.int64(), mask=mask)
    return found


class NamePlaces:
    """The places of ids in a list of names."""

    def __init__(self, ids: Int) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._places = ids[order], order

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, ids: Int) -> tuple[Int, Int]:
        """Return the place of each id, and the ids that have got a new one now: in order, behind all others."""
        unknown = np.unique(ids[~self._known(ids)])
        if len(unknown):
            both = np.concatenate([self._ids, unknown])
            places = np.concatenate([self._places, len(self._ids) + np.arange(len(unknown))])
            order = np.argsort(both, kind="stable")
            self._ids, self._places = both[order], places[order]
        if not len(self._ids):
            return np.empty(0, np.int64), unknown
        return self._places[np.searchsorted(self._ids, ids)], unknown

    def _known(self, ids: Int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if not len(self._ids):
            return np.zeros(len(ids), np.bool_)
        known: np.ndarray[Any, np.dtype[np.bool_]] = (
            self._ids[np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)] == ids
        )
        return known
