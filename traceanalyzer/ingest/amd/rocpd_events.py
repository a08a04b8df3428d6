"""The events of a rocpd database: what launched what, and what ranges say, found by the event's id.

GPU work of a rocpd database: dispatches of kernels, and copies.

Calls, ranges and marks of a rocpd database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.agents import Agents
from traceanalyzer.ingest.amd.host import ACROSS_THREADS, crossing_rows, mark_rows
from traceanalyzer.ingest.amd.recording import (
    AmdDefects,
    Lookup,
    NameCodes,
    array_of,
    call_batch,
    category_of,
    coded_column,
    flags,
    groups_of,
    integers,
    ints,
    taken,
    unless_zero,
    work_batch,
)
from traceanalyzer.ingest.amd.rocpd_rows import CounterReads, ProcessTables, ids_of
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column, count, either, known, negated


def work_of(tables: ProcessTables, events: RocpdEvents, agents: Agents) -> Iterator[pa.RecordBatch]:
    """Yield GPU work, in the schema WORK."""
    yield from _dispatches(tables, events, agents)
    yield from _copies(tables, events, agents)


def _dispatches(tables: ProcessTables, events: RocpdEvents, agents: Agents) -> Iterator[pa.RecordBatch]:
    symbols = tables.rows("symbol")
    symbol_at = Lookup(ids_of(symbols))
    names = pa.array([row["display_name"] or row["kernel_name"] or None for row in symbols], pa.string())
    registers = pa.array([row["arch_vgpr_count"] for row in symbols], pa.int64())
    for rows in tables.batches("dispatch"):
        batch = _without_replays(rows, tables)
        kernel = symbol_at.find(batch.column("kernel_id"))
        tables.defects.add("missing-kernel", int((kernel == NONE).sum()))
        columns: dict[str, Column] = {
            "op_id": batch.column("event_id"),
            "event": batch.column("source"),
            "device": agents.devices(batch.column("agent_id")),
            "stream": batch.column("stream_id"),
            "queue": batch.column("queue_id"),
            "name": coded_column(kernel, names),
            "start_ns": batch.column("start"),
            "end_ns": batch.column("end"),
            "correlation": ints(events.stack_ids(event_places(events, batch, tables.defects))),
            "registers_per_thread": taken(registers, kernel),
            "shared_memory_bytes": batch.column("group_segment_size"),
            "scratch_bytes": batch.column("private_segment_size"),
            "range": tables.coded_strings(batch.column("region_name_id")),
            "graph_id": unless_zero(batch.column("graph_exec_id")),
            "graph_node_id": unless_zero(batch.column("graph_node_id")),
            "dispatch": batch.column("dispatch_id"),
        }
        for axis in "xyz":
            block = batch.column(f"workgroup_size_{axis}")
            columns[f"block_{axis}"] = block
            columns[f"grid_{axis}"] = groups_of(batch.column(f"grid_size_{axis}"), block)
        yield work_batch(batch.num_rows, columns)


def _without_replays(rows: pa.RecordBatch, tables: ProcessTables) -> pa.RecordBatch:
    """Leave out dispatches that were repeated once per group of counters."""
    repeated = pa.array(integers(rows.column("replay_pass")) > 0)
    tables.defects.add("replayed-dispatch", count(repeated))
    return rows.filter(negated(repeated)) if count(repeated) else rows


def _copies(tables: ProcessTables, events: RocpdEvents, agents: Agents) -> Iterator[pa.RecordBatch]:
    for batch in tables.batches("copy"):
        names = tables.strings(batch.column("name_id"))
        tables.defects.add("missing-string", names.null_count, "of a copy")
        device, kinds = agents.devices_of_copies(batch.column("dst_agent_id"), batch.column("src_agent_id"), names)
        columns = {
            "op_id": batch.column("event_id"),
            "event": batch.column("source"),
            "device": device,
            "stream": batch.column("stream_id"),
            "queue": batch.column("queue_id"),
            "is_copy": pa.array([True] * batch.num_rows),
            "name": names.dictionary_encode(),
            "start_ns": batch.column("start"),
            "end_ns": batch.column("end"),
            "correlation": ints(events.stack_ids(event_places(events, batch, tables.defects))),
            "size_bytes": batch.column("size"),
            "copy_kind": kinds,
            "graph_id": unless_zero(batch.column("graph_exec_id")),
            "graph_node_id": unless_zero(batch.column("graph_node_id")),
        }
        yield work_batch(batch.num_rows, columns)


_CALLS = ("runtime", "driver")


class HostRows:
    """Reads what the host did; marks, and ranges that begin on one thread and end on another, are kept aside."""

    def __init__(self, tables: ProcessTables, events: RocpdEvents, pid: int | None) -> None:
        self._tables = tables
        self._events = events
        self._pid = pid
        self.names, self.kinds = NameCodes(), NameCodes()
        self._crossing: list[pa.RecordBatch] = []
        self._marks: list[pa.RecordBatch] = []
        self.counter_reads = CounterReads(tables)

    def calls(self) -> Iterator[pa.RecordBatch]:
        """Yield calls and ranges, in the schema CALLS."""
        for batch in self._tables.batches("region"):
            yield from self._region_rows(batch)
        tracks = self._tables.rows("track")
        track_at = Lookup(ids_of(tracks))
        threads = pa.array([row["tid"] for row in tracks], pa.int64())
        names = self._tables.strings(ids_of(tracks, "name_id"))
        for rows in self._tables.batches("sample"):
            batch = rows.filter(pa.array(~self.counter_reads.are(rows)))
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
        by_track = np.array([self.kinds.code(name or "") for name in track.to_pylist()], np.int64)
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
        is_call = np.array([category_of(name) in _CALLS for name in self.kinds.list()], np.bool_)[kinds]
        if not is_call.all():
            self._marks.append(rows.filter(pa.array(~is_call)))
        if is_call.any():
            yield rows.filter(pa.array(is_call))

    def _kind_codes(self, places: Int) -> Int:
        """Return the codes of what the recorder calls the kinds of events."""
        distinct, inverse = np.unique(self._events.categories(places), return_inverse=True)
        texts = self._tables.strings(distinct).to_pylist()
        codes: Int = np.array([self.kinds.code(text or "") for text in texts], np.int64)[inverse]
        return codes

    def _name_codes(self, names: Column) -> Column:
        coded = names.dictionary_encode()
        codes = np.array([self.names.code(name or "") for name in coded.dictionary.to_pylist()] or [NONE], np.int64)
        places = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        column: Column = array_of(codes[places], ~flags(names.is_valid()))
        return column

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield marks and ranges across threads, with the names of their tables."""
        kinds, names = pa.array(self.kinds.list(), pa.string()), self.names.column()
        for rows in self._marks:
            yield "instants", mark_rows(rows, names, kinds)
        for rows in self._crossing:
            yield "async_slices", crossing_rows(rows, names, kinds, self._pid)


def _equal(texts: Column, text: str) -> npt.NDArray[np.bool_]:
    return flags(pc.call_function("equal", [texts, pa.scalar(text)]))


_NARROW = (np.uint16, np.uint32)
_NOWHERE, _MOST_LETTERS = np.empty(0, np.int64), 65_536
_PLAIN_MESSAGE = r'^\{"message": ?"(?P<message>[^"\\\x00-\x1f]+)"\}$'


class RocpdEvents:
    """Holds the category and the stack id of every event, in as few bytes as their numbers take."""

    def __init__(self, batches: Iterator[pa.RecordBatch], defects: AmdDefects) -> None:
        pieces: dict[str, list[npt.NDArray[Any]]] = {"id": [], "category_id": [], "stack_id": []}
        texts = _Texts(defects)
        for batch in batches:
            texts.read(batch.column("extdata"))
            for name, parts in pieces.items():
                parts.append(_narrowed(integers(batch.column(name))))
        # One after the other, as each is there twice for a moment.
        ids, self._category, self._stack = (_joined(pieces.pop(name)) for name in ("id", "category_id", "stack_id"))
        self.count = len(ids)
        self._lookup = Lookup(ids)
        self._said = {key: pa.chunked_array(values, pa.string()).combine_chunks() for key, values in texts.said.items()}
        self._said_at = {key: Lookup(np.concatenate([_NOWHERE, *places])) for key, places in texts.places.items()}

    def forget(self) -> None:
        """Give up the memory of all events."""
        self.count, self._lookup = 0, Lookup(_NOWHERE)
        self._category = self._stack = _NOWHERE
        self._said.clear()
        self._said_at.clear()

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

    def said(self, key: str, places: Int) -> Column:
        """Return the messages or the operations of events; NULL where there is none."""
        if not len(self._said[key]):
            return pa.nulls(len(places), pa.string())
        return taken(self._said[key], self._said_at[key].find(places))


class _Texts:
    """Keeps the messages of ranges, and the operations that they name, with the places of their events."""

    def __init__(self, defects: AmdDefects) -> None:
        self.places: dict[str, list[Int]] = {"message": [], "operation": []}
        self.said: dict[str, list[Column]] = {"message": [], "operation": []}
        self._defects = defects
        self._first = 0

    def read(self, texts: Column) -> None:
        """Read what the next events say beyond their columns."""
        is_saying = flags(pc.call_function("not_equal", [texts, pa.scalar("{}")]))
        places = np.flatnonzero(is_saying)
        spoken = cast(Any, texts).take(pa.array(places))
        # Most say a message alone, without an escape.
        plain = pc.call_function("extract_regex", [spoken], pc.ExtractRegexOptions(_PLAIN_MESSAGE))
        is_plain = flags(plain.is_valid()) & (integers(pc.call_function("utf8_length", [spoken])) <= _MOST_LETTERS)
        self._keep("message", places[is_plain], plain.field(0).filter(pa.array(is_plain)))
        others = [parsed(text, self._defects) for text in spoken.filter(pa.array(~is_plain)).to_pylist()]
        for key in self.places:
            found = [
                (place, said[key][:_MOST_LETTERS])
                for place, said in zip(places[~is_plain].tolist(), others, strict=True)
                if isinstance(said.get(key), str) and said[key]
            ]
            self._keep(
                key,
                np.array([place for place, _ in found], np.int64),
                pa.array([text for _, text in found], pa.string()),
            )
        self._first += len(texts)

    def _keep(self, key: str, places: Int, said: Column) -> None:
        if len(places):
            self.places[key].append(places + self._first)
            self.said[key].append(said)


def event_places(events: RocpdEvents, batch: pa.RecordBatch, defects: AmdDefects) -> Int:
    """Return where the events of rows lie; those that are named and not there are counted."""
    places = events.places(batch.column("source"))
    defects.add("missing-event", max(int((places == NONE).sum()) - batch.column("source").null_count, 0))
    return places


_VALUE_AT = json.JSONDecoder().raw_decode


def parsed(text: str | None, defects: AmdDefects) -> dict[str, Any]:
    """Return the object that a text holds as JSON; empty, and counted, where it holds none."""
    if not text or text == "{}":
        return {}
    try:
        value = _value(text)
    except (ValueError, RecursionError):
        defects.add("bad-json", example=text[:80])
        return {}
    return value if isinstance(value, dict) else {}


def _value(text: str) -> Any:
    """Return what a JSON text says; `json.loads` takes longer, as it looks for spaces around the value."""
    with suppress(ValueError):
        value, end = _VALUE_AT(text)
        if end == len(text):
            return value
    return json.loads(text)


def _narrowed(numbers: Int) -> npt.NDArray[Any]:
    """Return numbers in as few bytes as they take; what is no id becomes 0."""
    known = np.where(numbers < 0, 0, numbers)
    largest = int(known.max()) if len(known) else 0
    return known.astype(next((kind for kind in _NARROW if largest <= np.iinfo(kind).max), np.int64))


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
