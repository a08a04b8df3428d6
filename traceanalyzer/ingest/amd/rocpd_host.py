"""Calls, ranges and marks of a rocpd database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.ranges import ACROSS_THREADS, crossing_rows, mark_rows
from traceanalyzer.ingest.amd.recording import (
    Lookup,
    NameCodes,
    array_of,
    call_batch,
    category_of,
    flags,
    ints,
    taken,
)
from traceanalyzer.ingest.amd.rocpd_events import RocpdEvents, event_places
from traceanalyzer.ingest.amd.rocpd_reading import ProcessTables, ids_of
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column, count, either, known, negated

_CALLS = ("runtime", "driver")


class HostRows:
    """Reads what the host did; marks, and ranges that begin on one thread and end on another, are kept aside."""

    def __init__(self, tables: ProcessTables, events: RocpdEvents, pid: int | None) -> None:
        self._tables = tables
        self._events = events
        self._pid = pid
        self.names = NameCodes()
        self._kinds = NameCodes()
        self._crossing: list[pa.RecordBatch] = []
        self._marks: list[pa.RecordBatch] = []

    def kinds(self) -> Sequence[tuple[str, str]]:
        """Return the category of each kind, and what the recorder calls it."""
        return [(category_of(name), name) for name in self._kinds.list()]

    def calls(self) -> Iterator[pa.RecordBatch]:
        """Yield calls and ranges, in the schema CALLS."""
        self._events.read_texts(self._tables.saying_events(), self._tables.defects)
        for batch in self._tables.batches("region"):
            yield from self._region_rows(batch)
        tracks = self._tables.rows("track")
        track_at = Lookup(ids_of(tracks))
        threads = pa.array([row["tid"] for row in tracks], pa.int64())
        names = self._tables.strings(ids_of(tracks, "name_id"))
        for batch in self._tables.batches("sample"):
            at = track_at.find(batch.column("track_id"))
            yield from self._sample_rows(batch, taken(threads, at), taken(names, at))

    def _region_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        places = event_places(self._events, batch, self._tables.defects)
        names = self._tables.strings(batch.column("name_id"))
        messages = self._events.said("message", places)
        self._tables.defects.add("missing-string", count(negated(either(known(names), known(messages)))))
        start_ns, end_ns = batch.column("start"), batch.column("end")
        columns: dict[str, Column] = {
            "slice_id": batch.column("event_id"),
            "thread": batch.column("tid"),
            "start_ns": start_ns,
            "dur_ns": pa.array(end_ns.to_numpy() - start_ns.to_numpy()),
            "kind": pa.array(self._kind_codes(places)),
            "name_code": self._name_codes(names),
            "text": messages,
            "correlation": ints(self._events.stack_ids(places)),
        }
        rows = call_batch(batch.num_rows, columns)
        crosses = _equal(names, ACROSS_THREADS) | _equal(self._events.said("operation", places), ACROSS_THREADS)
        if crosses.any():
            self._crossing.append(rows.filter(pa.array(crosses)))
            rows = rows.filter(pa.array(~crosses))
        if rows.num_rows:
            yield rows

    def _sample_rows(self, batch: pa.RecordBatch, threads: Column, track: Column) -> Iterator[pa.RecordBatch]:
        """Yield calls without length, which have no name of their own."""
        places = event_places(self._events, batch, self._tables.defects)
        by_track = np.array([self._kinds.code(name or "") for name in track.to_pylist()], np.int64)
        kinds = np.where(places == NONE, by_track, self._kind_codes(places))
        columns: dict[str, Column] = {
            "slice_id": batch.column("event_id"),
            "thread": threads,
            "start_ns": batch.column("timestamp"),
            "dur_ns": pa.array(np.zeros(batch.num_rows, np.int64)),
            "kind": pa.array(kinds),
            "text": self._events.said("message", places),
            "correlation": ints(self._events.stack_ids(places)),
        }
        rows = call_batch(batch.num_rows, columns)
        is_call = np.array([category in _CALLS for category, _ in self.kinds()], np.bool_)[kinds]
        if not is_call.all():
            self._marks.append(rows.filter(pa.array(~is_call)))
        if is_call.any():
            yield rows.filter(pa.array(is_call))

    def _kind_codes(self, places: Int) -> Int:
        """Return the codes of what the recorder calls the kinds of events."""
        distinct, inverse = np.unique(self._events.categories(places), return_inverse=True)
        texts = self._tables.strings(distinct).to_pylist()
        codes: Int = np.array([self._kinds.code(text or "") for text in texts], np.int64)[inverse]
        return codes

    def _name_codes(self, names: Column) -> Column:
        coded = names.dictionary_encode()
        codes = np.array([self.names.code(name or "") for name in coded.dictionary.to_pylist()] or [NONE], np.int64)
        places = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        column: Column = array_of(codes[places], ~flags(names.is_valid()))
        return column

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield marks and ranges across threads, with the names of their tables."""
        kinds, names = pa.array(self._kinds.list(), pa.string()), self.names.column()
        for rows in self._marks:
            yield "instants", mark_rows(rows, names, kinds)
        for rows in self._crossing:
            yield "async_slices", crossing_rows(rows, names, kinds, self._pid)


def _equal(texts: Column, text: str) -> npt.NDArray[np.bool_]:
    return flags(pc.call_function("equal", [texts, pa.scalar(text)]))
