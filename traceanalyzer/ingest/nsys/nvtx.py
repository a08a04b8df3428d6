"""NVTX rows on their way: ranges go on to the threads, the rest goes where it belongs; what slices are called.

NCCL's payloads are what its NVTX ranges carry as bytes, laid out by schemas that the export describes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import Int
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import (
    Column,
    Mask,
    count,
    differs,
    either,
    filled,
    known,
    negated,
    one_of,
)
from traceanalyzer.ingest.nsys.tables import BY_RELATION
from traceanalyzer.ingest.nsys.torch_ranges import as_operators, coded, take_apart

_WITH_NULLS = pc.DictionaryEncodeOptions("encode")
_TYPES: tuple[pa.DataType, ...] = (pa.string(), pa.string(), pa.bool_())


class SliceNamer:
    """Completes sorted slices, which carry an id or a text; few strings name millions of them, and are kept."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        # The string of each id so far, the kind of synchronisation that it names, and whether it records an event.
        self._strings: dict[int | None, tuple[Any, ...]] = {None: (None, None, False)}

    def complete(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return slices with their final category and what their names say, in place of ids and texts."""
        name, sync_kind, records_event = self._look_up(rows.column("name_id"))
        texts = rows.column("text")
        name = cast("Column", pc.call_function("coalesce", [texts, name]))
        columns = {column: rows.column(column) for column in rows.schema.names if column not in ("name_id", "text")}
        columns |= {"name": name, "sync_kind": sync_kind, "records_event": records_event}
        torch = None if texts.null_count == len(texts) else take_apart(texts)
        if torch is None:
            columns |= {column: pa.nulls(len(rows), pa.int64()) for column in ("sequence", "external_id")}
            columns |= {column: pa.nulls(len(rows), pa.string()) for column in ("input_shapes", "args")}
        else:
            columns |= as_operators(torch, columns["category"], name)
        return pa.RecordBatch.from_pydict(columns)

    def _look_up(self, ids: Column) -> list[Column]:
        """Return what the strings of some ids say, row by row."""
        different, places = coded(cast("Column", pc.call_function("dictionary_encode", [ids], _WITH_NULLS)))
        self._learn([string_id for string_id in different if string_id not in self._strings])
        columns = zip(*(self._strings[string_id] for string_id in different), strict=True)
        rows = pa.array(places)
        return [
            cast("Column", pa.array(list(values), kind).take(rows))
            for values, kind in zip(columns, _TYPES, strict=True)
        ]

    def _learn(self, string_ids: list[int]) -> None:
        if not string_ids:
            return
        self._strings |= dict.fromkeys(string_ids, self._strings[None])
        query = "SELECT id, value, sync_kind, records_event FROM strings WHERE id IN (SELECT unnest($ids))"
        for string_id, *texts in self._connection.execute(query, {"ids": string_ids}).fetchall():
            self._strings[string_id] = tuple(texts)


# Before the fields: domain (u32), flags, schema (u32), flags, size of the fields (u64), size of it all (u64).
_HEADER = struct.Struct("<IIIIQQ")
# NVTX payload entry types (nvToolsExtPayload.h) that have one size on 64-bit Linux.
_FORMATS = {
    3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H", 15: "i",
    16: "I", 17: "q", 18: "Q", 19: "f", 20: "d", 22: "Q", 23: "Q",
}  # fmt: skip


@dataclass(frozen=True)
class PayloadField:
    """One field of a payload: its name, its offset and how its bytes are read."""

    name: str
    offset: int
    format: str


@dataclass(frozen=True)
class CommunicatorInit:
    """The record of a process that joined a communicator."""

    scope: int
    rank: int
    rank_count: int
    device: int | None


class PayloadDecoder:
    """Decodes payload bytes into JSON objects by field name, and notes who joined which communicator as which rank."""

    def __init__(self, entries: pa.Table) -> None:
        self.inits: list[CommunicatorInit] = []
        self._schemas: dict[tuple[int, int], list[PayloadField]] = {}
        rows = [row for row in entries.to_pylist() if row["schemaId"] is not None]
        for row in sorted(rows, key=lambda row: (row["domainId"] or 0, row["schemaId"], row["idx"] or 0)):
            shape = _FORMATS.get(row["type"])
            if shape and row["name"]:
                key = (row["domainId"] or 0, row["schemaId"])
                self._schemas.setdefault(key, []).append(PayloadField(row["name"], row["offset"] or 0, "<" + shape))

    def decode(self, blobs: Column, threads: Column) -> Column:
        """Return each payload as JSON text; NULL where there is none or its schema is unknown."""
        if not self._schemas or not count(filled(blobs)):
            return pa.nulls(len(blobs), pa.string())
        texts = []
        for blob, thread in zip(blobs.to_pylist(), threads.to_pylist(), strict=True):
            fields = self._fields(blob) if blob else None
            if fields:
                self._note_init(fields, thread)
            texts.append(json.dumps(fields) if fields else None)
        return pa.array(texts, pa.string())

    def _fields(self, blob: bytes) -> dict[str, int | float] | None:
        if len(blob) < _HEADER.size:
            return None
        domain, _, schema, _, _, _ = _HEADER.unpack_from(blob)
        entries = self._schemas.get((domain, schema))
        if entries is None:
            return None
        fields = {}
        for entry in entries:
            place = _HEADER.size + entry.offset
            if place + struct.calcsize(entry.format) <= len(blob):
                (fields[entry.name],) = struct.unpack_from(entry.format, blob, place)
        return fields

    def _note_init(self, fields: dict[str, int | float], thread: int | None) -> None:
        rank, count = fields.get("Rank"), fields.get("No. of ranks")
        if rank is not None and count:
            device = fields.get("CUDA device")
            self.inits.append(
                CommunicatorInit(
                    (thread or 0) & -16777216, int(rank), int(count), None if device is None else int(device)
                )
            )


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
