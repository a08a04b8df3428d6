"""rocprofv3's JSON: read once, its rows put aside on disk, because works come before the calls that launched them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.amd.agents import Agent, Agents
from traceanalyzer.ingest.amd.host import ACROSS_THREADS, MARK, crossing_rows, mark_rows
from traceanalyzer.ingest.amd.json_records import (
    CutError,
    RowSpool,
    ToolRecords,
    handle_of,
    kernel_name,
    number_or_none,
    object_of,
    objects_of,
    text_or_none,
    texts_by_key,
    time_of,
    whole_number,
)
from traceanalyzer.ingest.amd.recording import (
    AmdDefects,
    CounterRows,
    Identity,
    Lookup,
    NameCodes,
    ProcessRecording,
    allocation_rows,
    call_batch,
    coded_column,
    counter_batch,
    groups_of,
    integers,
    ints,
    taken,
    unless_zero,
    work_batch,
)
from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.text.visible import masked_arguments

_AXES = ("x", "y", "z")
_CALLS = ("slice_id", "thread", "start_ns", "end_ns", "kind", "name_code", "correlation")
_DISPATCHES = (
    "op_id",
    "agent",
    "stream",
    "queue",
    "kernel",
    "dispatch",
    "start_ns",
    "end_ns",
    "correlation",
    "lds",
    "scratch",
    "external",
    *(f"items_{axis}" for axis in _AXES),
    *(f"block_{axis}" for axis in _AXES),
)
_COPIES = ("op_id", "target", "source", "stream", "name_code", "start_ns", "end_ns", "correlation", "size")
_COUNTS = ("event", "counter")
# Lists of records that hold no calls and no work of the program.
_PASSED_OVER = ("scratch_memory",)
_SAMPLES = ("pc_sample_host_trap", "pc_sample_stochastic")
_AGENT_KINDS = {1: "CPU", 2: "GPU"}


def json_recordings(path: Path, scratch: Path) -> Iterator[ProcessRecording]:
    """Yield every process of a file. Raises TraceAnalyzerError where it holds none that can be read."""
    records = ToolRecords(path)
    found = 0
    try:
        for number, tool in enumerate(records.tools()):
            recording = SdkRecording(scratch / str(number))
            try:
                for place, key, value in tool:
                    recording.take(place, key, value)
                records.check_next()
            except CutError as error:
                recording.defects.add("unreadable-rows", example=str(error))
            if recording.has_samples_alone:
                what = "holds samples of program counters alone, which do not tell when kernels ran"
                raise TraceAnalyzerError(what, path, "record kernels and calls: rocprofv3 --runtime-trace -- ./program")
            found += 1
            recording.finish(number)
            yield recording
            if recording.defects.lost:
                return
    except CutError as error:
        if not found:
            raise TraceAnalyzerError(f"the JSON cannot be read: {error}", path, "record it again") from error
    finally:
        records.close()
    if not found:
        raise TraceAnalyzerError("holds no process", path, "record it again with rocprofv3 --runtime-trace")


class SdkRecording(ProcessRecording):
    """One process of a rocprofv3 JSON file."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True)
        self.defects = AmdDefects()
        self.folder = "0"
        self.row_count = 0
        self.identity = Identity("rocprof", "rocprofv3, JSON", None, None)
        self.devices: Sequence[Mapping[str, object]] = []
        self.metadata: Mapping[str, object] = {}
        self._facts: dict[str, Any] = {}
        self._spools = {
            name: RowSpool(scratch / f"{name}.arrow", columns)
            for name, columns in (
                ("calls", _CALLS),
                ("dispatches", _DISPATCHES),
                ("counted", _DISPATCHES),
                ("copies", _COPIES),
                ("marks", _CALLS),
                ("crossing", _CALLS),
            )
        }
        self._counts = RowSpool(scratch / "counts.arrow", _COUNTS, reals=("value",))
        self._names, self._kinds = NameCodes(), NameCodes()
        self._allocations: list[dict[str, Any]] = []
        self._counted: set[int] = set()
        self._has_samples = False

    @property
    def has_samples_alone(self) -> bool:
        """Whether program counters were sampled, and nothing else was recorded."""
        return self._has_samples and not self.row_count and not self.defects.lost

    # Reading ---------------------------------------------------------------------------------------------------------

    def take(self, place: str, key: str, value: Any) -> None:
        """Take in a fact about the process, or a record."""
        if not place:
            self._facts[key] = value
            return
        try:
            if place == "callback_records" or key == "counter_collection":
                self._take_counters(key, value)
            elif key == "kernel_dispatch":
                self._add_dispatch("dispatches", value, value["dispatch_info"])
            elif key == "memory_copy":
                self._take_copy(value)
            elif key == "memory_allocation":
                self._take_allocation(value)
            elif key.endswith("_api"):
                self._take_call(value)
            elif key in _SAMPLES:
                self._has_samples = True
            elif key not in _PASSED_OVER:
                self.defects.add("unknown-kind", example=key)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.defects.add("unreadable-record", example=f"{key}: {str(value)[:200]}")

    def _named(self, record: Mapping[str, Any]) -> tuple[str, str]:
        """Return the kind of a record and its operation, whose numbers differ between versions."""
        kinds = objects_of(object_of(self._facts.get("strings")).get("buffer_records"))
        kind, operation = record["kind"], whole_number(record["operation"])
        known = kinds[kind] if isinstance(kind, int) and 0 <= kind < len(kinds) else {}
        name, operations = str(known.get("kind") or ""), known.get("operations")
        if not isinstance(operations, list) or not 0 <= operation < len(operations):
            self.defects.add("unknown-operation", example=f"{name or f'kind {kind}'}, operation {operation}")
            return name, ""
        return name, str(operations[operation])

    def _take_call(self, record: Mapping[str, Any]) -> None:
        kind, operation = self._named(record)
        self.row_count += 1
        row = (
            self.row_count,
            whole_number(record["thread_id"]),
            time_of(record["start_timestamp"]),
            time_of(record["end_timestamp"]),
            self._kinds.code(kind),
            self._names.code(operation) if operation else NONE,
            whole_number(record["correlation_id"]["internal"]),
        )
        place = {MARK: "marks", ACROSS_THREADS: "crossing"}.get(operation, "calls")
        self._spools[place].add(row)

    def _add_dispatch(self, place: str, record: Mapping[str, Any], info: Mapping[str, Any]) -> None:
        self.row_count += 1
        sides = [whole_number(info[name][axis]) for name in ("grid_size", "workgroup_size") for axis in _AXES]
        self._spools[place].add(
            (
                self.row_count,
                handle_of(info["agent_id"]),
                handle_of(record.get("stream_id")),
                handle_of(info["queue_id"]),
                whole_number(info["kernel_id"]),
                whole_number(info["dispatch_id"]),
                time_of(record["start_timestamp"]),
                time_of(record["end_timestamp"]),
                whole_number(record["correlation_id"]["internal"]),
                whole_number(info.get("group_segment_size", 0)),
                whole_number(info.get("private_segment_size", 0)),
                whole_number(record["correlation_id"].get("external", 0)),
                *sides,
            )
        )

    def _take_copy(self, record: Mapping[str, Any]) -> None:
        _, operation = self._named(record)
        self.row_count += 1
        self._spools["copies"].add(
            (
                self.row_count,
                handle_of(record["dst_agent_id"]),
                handle_of(record["src_agent_id"]),
                handle_of(record.get("stream_id")),
                self._names.code(operation),
                time_of(record["start_timestamp"]),
                time_of(record["end_timestamp"]),
                whole_number(record["correlation_id"]["internal"]),
                whole_number(record["bytes"]),
            )
        )

    def _take_allocation(self, record: Mapping[str, Any]) -> None:
        _, operation = self._named(record)
        self.row_count += 1
        address = record.get("address")
        self._allocations.append(
            {
                "event_id": self.row_count,
                "tid": whole_number(record["thread_id"]),
                "end": time_of(record["end_timestamp"]),
                "type": "FREE" if "FREE" in operation else "ALLOC",
                "level": "REAL",
                "address": whole_number(int(address, 0) if isinstance(address, str) else handle_of(address)),
                "size": whole_number(record.get("allocation_size", 0)),
                "agent": handle_of(record.get("agent_id")),
            }
        )

    def _take_counters(self, key: str, record: Mapping[str, Any]) -> None:
        if key != "counter_collection":
            self.defects.add("unknown-kind", example=key)
            return
        data = record["dispatch_data"]
        dispatch = whole_number(data["dispatch_info"]["dispatch_id"])
        if dispatch not in self._counted:
            self._counted.add(dispatch)
            self._add_dispatch("counted", data, data["dispatch_info"])
        for one in record["records"]:
            self._counts.add((dispatch, handle_of(one["counter_id"]), float(one["value"])))

    def finish(self, number: int) -> None:
        """Say what the process is, once all of it was read."""
        for spool in (*self._spools.values(), self._counts):
            spool.close()
        metadata = object_of(self._facts.get("metadata"))
        node = object_of(metadata.get("node"))
        pid = number_or_none(metadata.get("pid"))
        command = metadata.get("command")
        self.identity = Identity("rocprof", "rocprofv3, JSON", pid, text_or_none(node.get("hostname")))
        self.folder = "0" if number == 0 else f"pid{pid}-{number}"
        self.metadata = {
            "rocprof.node": {key: value for key, value in node.items() if value not in (None, "", 0)},
            "rocprof.process": {key: metadata.get(key) for key in ("pid", "init_time", "fini_time")},
            "rocprof.command": masked_arguments([str(part) for part in command]) if isinstance(command, list) else None,
            "rocprof.settings": metadata.get("config"),
        }
        self._agents = Agents(self._agents_in(), self.defects, self.identity.host)
        self.devices = self._agents.rows
        if not self._spools["dispatches"].count and self._spools["counted"].count:
            self._spools["dispatches"] = self._spools["counted"]

    def _agents_in(self) -> Iterator[Agent]:
        for agent in objects_of(self._facts.get("agents")):
            try:
                kind = _AGENT_KINDS.get(agent["type"], str(agent["type"]))
                name = text_or_none(agent.get("product_name")) or text_or_none(agent.get("name"))
                number = number_or_none(agent.get("logical_node_type_id"))
                yield Agent(handle_of(agent["id"]), kind, number, name, agent)
            except (KeyError, TypeError):
                self.defects.add("unreadable-record", example=f"agent: {str(agent)[:200]}")

    # Rows ------------------------------------------------------------------------------------------------------------

    def calls(self) -> Iterator[pa.RecordBatch]:
        return self._call_batches("calls")

    def _call_batches(self, place: str) -> Iterator[pa.RecordBatch]:
        message_at, texts = texts_by_key(object_of(self._facts.get("strings")).get("marker_api"))
        is_marker = np.array([category == "annotation" for category, _ in self.kinds()] or [False], np.bool_)
        for rows in self._spools[place].batches():
            marks = is_marker[integers(rows.column("kind"))]
            at = np.where(marks, message_at.find(rows.column("correlation")), NONE)
            start, end = integers(rows.column("start_ns")), integers(rows.column("end_ns"))
            self.defects.add("negative-duration", int((end < start).sum()))
            columns = {name: rows.column(name) for name in ("slice_id", "thread", "start_ns", "kind")}
            columns |= {
                "dur_ns": pa.array(np.maximum(end - start, 0)),
                "name_code": ints(integers(rows.column("name_code"))),
                "text": taken(texts, at),
                "correlation": unless_zero(rows.column("correlation")),
            }
            yield call_batch(rows.num_rows, columns)

    def work(self) -> Iterator[pa.RecordBatch]:
        symbols = [
            one
            for one in objects_of(self._facts.get("kernel_symbols"))
            if number_or_none(one.get("kernel_id")) is not None
        ]
        symbol_at = Lookup(np.array([one["kernel_id"] for one in symbols], np.int64))
        names = pa.array([kernel_name(one) for one in symbols], pa.string())
        registers = pa.array([number_or_none(one.get("arch_vgpr_count")) for one in symbols], pa.int64())
        external = object_of(object_of(self._facts.get("strings")).get("correlation_id")).get("external")
        renamed_at, renamed = texts_by_key(external)
        for rows in self._spools["dispatches"].batches():
            kernel = symbol_at.find(rows.column("kernel"))
            self.defects.add("missing-kernel", int((kernel == NONE).sum()))
            columns = self._work_columns(rows) | {
                "event": rows.column("dispatch"),
                "device": self._agents.devices(rows.column("agent")),
                "queue": ints(integers(rows.column("queue"))),
                "name": coded_column(kernel, names),
                "registers_per_thread": taken(registers, kernel),
                "shared_memory_bytes": rows.column("lds"),
                "scratch_bytes": rows.column("scratch"),
                "range": taken(renamed, renamed_at.find(rows.column("external"))).dictionary_encode(),
                "dispatch": rows.column("dispatch"),
            }
            for axis in _AXES:
                columns[f"block_{axis}"] = rows.column(f"block_{axis}")
                columns[f"grid_{axis}"] = groups_of(rows.column(f"items_{axis}"), rows.column(f"block_{axis}"))
            yield work_batch(rows.num_rows, columns)
        for rows in self._spools["copies"].batches():
            copied = taken(self._names.column(), integers(rows.column("name_code")))
            device, kinds = self._agents.devices_of_copies(rows.column("target"), rows.column("source"), copied)
            columns = self._work_columns(rows) | {
                "device": device,
                "is_copy": pa.array([True] * rows.num_rows),
                "name": copied.dictionary_encode(),
                "size_bytes": rows.column("size"),
                "copy_kind": kinds,
            }
            yield work_batch(rows.num_rows, columns)

    def _work_columns(self, rows: pa.RecordBatch) -> dict[str, Column]:
        start, end = integers(rows.column("start_ns")), integers(rows.column("end_ns"))
        self.defects.add("negative-duration", int((end < start).sum()))
        return {
            "op_id": rows.column("op_id"),
            "stream": ints(integers(rows.column("stream"))),
            "start_ns": rows.column("start_ns"),
            "end_ns": pa.array(np.maximum(start, end)),
            "correlation": unless_zero(rows.column("correlation")),
        }

    def counters(self) -> CounterRows | None:
        if not self._counts.count:
            return None
        listed = objects_of(self._facts.get("counters"))
        names = {handle_of(one.get("id")): str(one.get("name") or "") for one in listed}
        batches = (
            counter_batch(rows.column("event"), rows.column("counter"), rows.column("value"))
            for rows in self._counts.batches()
        )
        return CounterRows(names, batches)

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        names, kinds = self.names(), pa.array(self._kinds.list(), pa.string())
        for rows in self._call_batches("marks"):
            yield "instants", mark_rows(rows, names, kinds)
        for rows in self._call_batches("crossing"):
            yield "async_slices", crossing_rows(rows, names, kinds, self.identity.pid)
        if self._allocations:
            agents = np.array([one["agent"] for one in self._allocations], np.int64)
            yield from allocation_rows(self._allocations, self._agents.gpus(agents).tolist())
