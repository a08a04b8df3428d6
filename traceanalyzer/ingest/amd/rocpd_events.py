"""The events of a rocpd database: what launched what, and what ranges say, found by the event's id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.amd.defects import AmdDefects
from traceanalyzer.ingest.amd.recording import Lookup, integers, taken
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column

_NARROW = np.iinfo(np.uint32).max


class RocpdEvents:
    """Holds the category and the stack id of every event, in as few bytes as their numbers take."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        pieces: dict[str, list[npt.NDArray[Any]]] = {"id": [], "category_id": [], "stack_id": []}
        for batch in batches:
            for name, parts in pieces.items():
                parts.append(_narrowed(integers(batch.column(name))))
        ids, self._category, self._stack = (
            np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in pieces.values()
        )
        self.count = len(ids)
        self._lookup = Lookup(ids.astype(np.int64, copy=False))
        self._said: dict[str, Column] = {}
        self._said_at: dict[str, Lookup] = {}

    def places(self, ids: Column) -> Int:
        """Return where events lie; NONE for those that are unknown."""
        return self._lookup.find(ids)

    def stack_ids(self, places: Int) -> Int:
        """Return the stack ids of events; NONE where there is no event, or no id."""
        if not self.count:
            return np.full(len(places), NONE, np.int64)
        found = np.where(places == NONE, NONE, self._stack[places].astype(np.int64))
        return np.where(found > 0, found, NONE)

    def categories(self, places: Int) -> Int:
        """Return the string ids of the categories of events; NONE where there is no event."""
        if not self.count:
            return np.full(len(places), NONE, np.int64)
        return np.where(places == NONE, NONE, self._category[places].astype(np.int64))

    def read_texts(self, batches: Iterator[pa.RecordBatch], defects: AmdDefects) -> None:
        """Keep the messages of ranges, and the operations that they name."""
        at: dict[str, list[int]] = {"message": [], "operation": []}
        texts: dict[str, list[str]] = {"message": [], "operation": []}
        for batch in batches:
            places = self.places(batch.column("id")).tolist()
            for place, text in zip(places, batch.column("extdata").to_pylist(), strict=True):
                said = parsed(text, defects)
                for key in at:
                    value = said.get(key)
                    if isinstance(value, str) and value and place != NONE:
                        at[key].append(place)
                        texts[key].append(value[:65_536])
        self._said = {key: pa.array(values, pa.string()) for key, values in texts.items()}
        self._said_at = {key: Lookup(np.array(places, np.int64)) for key, places in at.items()}

    def said(self, key: str, places: Int) -> Column:
        """Return the messages or the operations of events; NULL where there is none."""
        if key not in self._said or not len(self._said[key]):
            return pa.nulls(len(places), pa.string())
        return taken(self._said[key], self._said_at[key].find(places))


def event_places(events: RocpdEvents, batch: pa.RecordBatch, defects: AmdDefects) -> Int:
    """Return where the events of rows lie; those that are named and not there are counted."""
    places = events.places(batch.column("source"))
    defects.add("missing-event", max(int((places == NONE).sum()) - batch.column("source").null_count, 0))
    return places


def parsed(text: str | None, defects: AmdDefects) -> dict[str, Any]:
    """Return the object that a text holds as JSON; empty, and counted, where it holds none."""
    if not text or text == "{}":
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        defects.add("bad-json", example=text[:80])
        return {}
    return value if isinstance(value, dict) else {}


def _narrowed(numbers: Int) -> npt.NDArray[Any]:
    """Return numbers in half as many bytes where they fit; what is no id becomes 0."""
    known = np.where(numbers < 0, 0, numbers)
    return known.astype(np.uint32) if not len(known) or int(known.max()) <= _NARROW else known
