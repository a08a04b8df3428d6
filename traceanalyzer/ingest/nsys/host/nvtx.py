"""NVTX rows on their way: ranges go on to the threads, the rest goes where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import Int
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.tables import BY_RELATION
from traceanalyzer.ingest.nsys.masks import Mask, count, differs, either, filled, known, negated, one_of
from traceanalyzer.ingest.nsys.payload import PayloadDecoder

# Push/pop, start/end, and their two spellings imported from text files.
_RANGE_TYPES = (59, 60, 70, 71)
_VALUES = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue")
SCHEMA = BY_RELATION["nvtx"].schema
DETAIL_SCHEMA = SCHEMA.append(pa.field("is_open", pa.bool_())).append(pa.field("payload", pa.string()))


class NvtxSplitter:
    """Sorts NVTX rows by what they are, batch by batch.

    `split` returns the ranges that begin and end on one thread. `other` collects domains, names and marks, `crossing`
    the ranges that end on another thread, `details` every range that says more than its name. Ranges that were open
    when the capture stopped are held until all rows were seen, and end with the capture: at the last NVTX event or, if
    that is later, at the time that `last_of_others` returns.
    """

    def __init__(self, defects: Defects, decoder: PayloadDecoder, last_of_others: Callable[[], int | None]) -> None:
        self.other: list[pa.RecordBatch] = []
        self.crossing: list[pa.RecordBatch] = []
        self.details: list[pa.RecordBatch] = []
        self._open: list[pa.RecordBatch] = []
        self._last_ns: int | None = None
        self._defects = defects
        self._decoder = decoder
        self._last_of_others = last_of_others

    def split(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are finished ranges of one thread."""
        self._see_times(rows)
        rows = _take_out(rows, negated(one_of(rows.column("eventType"), _RANGE_TYPES, unknown=True)), self.other)
        rows = _take_out(rows, negated(known(rows.column("end"))), self._open)
        return self._finished(rows, is_open=False)

    def held(self) -> Iterator[pa.RecordBatch]:
        """Yield the ranges that never ended, ended with the capture; drawn after the last batch."""
        lasts = [last for last in (self._last_ns, self._last_of_others() if self._open else None) if last is not None]
        for rows in self._open:
            place = SCHEMA.get_field_index("end")
            ends = pa.array([max(lasts, default=None)] * rows.num_rows, pa.int64())
            ended = rows.set_column(place, SCHEMA.field(place), ends)
            self._defects.add("open-range", rows.num_rows, rows.column("text")[0].as_py() or "")
            yield self._finished(ended, is_open=True)

    def detailed_ids(self) -> Int:
        """Return the ids of the ranges in `details`; call it once all rows were seen."""
        return np.concatenate([np.empty(0, np.int64), *(rows.column("event_id").to_numpy() for rows in self.details)])

    def _see_times(self, rows: pa.RecordBatch) -> None:
        for column in ("start", "end"):
            latest: int | None = pc.max(rows.column(column)).as_py()
            if latest is not None:
                self._last_ns = latest if self._last_ns is None else max(latest, self._last_ns)

    def _finished(self, rows: pa.RecordBatch, *, is_open: bool) -> pa.RecordBatch:
        self._keep_details(rows, is_open=is_open)
        crosses = differs(rows.column("endGlobalTid"), rows.column("globalTid"))
        return _take_out(rows, crosses, self.crossing)

    def _keep_details(self, rows: pa.RecordBatch, *, is_open: bool) -> None:
        has_details = known(rows.column("start")) if is_open else _has_details(rows)
        if not count(has_details):
            return
        detailed = rows.filter(has_details)
        payloads = self._decoder.decode(detailed.column("binaryData"), detailed.column("globalTid"))
        flags = pa.array([is_open] * detailed.num_rows, pa.bool_())
        self.details.append(pa.RecordBatch.from_arrays([*detailed.columns, flags, payloads], schema=DETAIL_SCHEMA))


def _take_out(rows: pa.RecordBatch, mask: Mask, taken: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Move the rows of the mask to `taken` and return the others."""
    if not count(mask):
        return rows
    taken.append(rows.filter(mask))
    return rows.filter(negated(mask))


def _has_details(rows: pa.RecordBatch) -> Mask:
    """Return which ranges have a domain, category, value, payload or identity beside their name."""
    has_details = differs(rows.column("domainId"), 0)
    for column in ("category", "rangeId", "jsonTextId", "endGlobalTid", *_VALUES):
        has_details = either(has_details, differs(rows.column(column), 0))
    for column in ("jsonText", "binaryData"):
        has_details = either(has_details, filled(rows.column(column)))
    return has_details
