"""The canonical tables of a simulated run, built without writing its trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from traceanalyzer import schema
from tracesim.catalogue.recording import GpuOp, HostSlice, MemoryRecord, Recording, SyncRecord
from tracesim.scenario.scenario import Scenario
from tracesim.writers.ancestry import ROOT, Ancestry, ancestries, stack_below
from tracesim.writers.events import TraceEvent, copy_name, kernel_loads, trace_events, written_stream
from tracesim.writers.kineto import BASE_NS, begin_ns, metadata_values, readable_events

Row = dict[str, Any]
_JSON = msgspec.json.Encoder()


def canonical_tables(
    scenario: Scenario, recording: Recording, seed: int, trace_id: int, trace: str
) -> dict[str, pa.Table]:
    """Return every canonical table of a trace; ids are positions in the trace's event list, times are absolute ns."""
    events, size_bytes = readable_events(scenario, trace_events(scenario, recording, seed))
    epoch_ns = begin_ns(scenario)
    threads = _threads(events)
    rows: dict[str, list[Row]] = {
        "traces": [_trace(scenario, events, size_bytes, trace, epoch_ns)],
        "devices": [_device(scenario, number) for number in range(scenario.conditions.device_count)],
        "threads": list(threads.values()),
        "defects": _defects(scenario, size_bytes),
        "metadata": [{"key": key, "value": value} for key, value in metadata_values(scenario).items()],
        **_event_rows(scenario, events, epoch_ns, {key: row["thread_id"] for key, row in threads.items()}),
    }
    return {name: _arrow(table, rows.get(name, []), trace_id) for name, table in schema.trace_tables().items()}


def _arrow(table: schema.TableSchema, rows: Sequence[Row], trace_id: int) -> pa.Table:
    columns = [
        [trace_id] * len(rows) if column.name == "trace_id" else [row.get(column.name) for row in rows]
        for column in table.columns
    ]
    arrow = table.arrow_schema()
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow)


def _trace(scenario: Scenario, events: Sequence[TraceEvent], size_bytes: int, trace: str, epoch_ns: int) -> Row:
    conditions = scenario.conditions
    spans = [event for event in events if event.phase == "X"]
    return {
        "trace": trace,
        "path": trace,
        "format": "kineto",
        "recorder": "kineto",
        "framework": "pytorch",
        "producer": "kineto",
        "vendor": scenario.device.vendor,
        "host": "simulator",
        "rank": conditions.rank if conditions.world_size > 1 else None,
        "rank_source": "metadata" if conditions.world_size > 1 else None,
        "world_size": conditions.world_size if conditions.world_size > 1 else None,
        "backend": "nccl" if conditions.world_size > 1 else None,
        "base_ns": BASE_NS,
        "first_ns": min((event.start_ns + epoch_ns for event in spans), default=None),
        "last_ns": max((event.start_ns + (event.dur_ns or 0) + epoch_ns for event in spans), default=None),
        "size_bytes": size_bytes,
        "event_count": len(events),
        "truncated": conditions.truncate > 0,
        "has_shapes": conditions.shapes,
        "has_stacks": conditions.stacks,
        "has_memory": conditions.memory,
        "has_sync_events": any(event.category == "cuda_sync" for event in events),
    }


def _defects(scenario: Scenario, size_bytes: int) -> list[Row]:
    if not scenario.conditions.truncate:
        return []
    advice = "the file ends inside the event list; everything before the cut is analysed"
    return [
        {"defect": "truncated", "severity": "loss", "defect_count": 1, "first_offset": size_bytes, "advice": advice}
    ]


def _device(scenario: Scenario, number: int) -> Row:
    device = scenario.device
    return {
        "device": number,
        "name": device.name,
        "vendor": device.vendor,
        "sm_count": device.sm_count,
        "memory_bytes": device.memory_bytes,
        "compute_major": device.compute_major,
        "compute_minor": device.compute_minor,
        "warp_size": device.warp_size,
        "max_threads_per_sm": device.max_threads_per_sm,
    }


def _threads(events: Sequence[TraceEvent]) -> dict[tuple[str, str], Row]:
    """Return a row for every track of host slices and every named one, numbered in order of appearance."""
    names: dict[tuple[str, str], str] = {}
    processes: dict[str, str] = {}
    tracks: dict[tuple[str, str], None] = {}
    for event in events:
        track = (str(event.pid), str(event.tid))
        if event.name == "process_name":
            processes[track[0]] = event.args["name"]
        elif event.name == "thread_name":
            names[track] = event.args["name"]
            tracks.setdefault(track)
        elif isinstance(event.source, HostSlice):
            tracks.setdefault(track)
    return {
        track: {
            "thread_id": number,
            "pid": track[0],
            "tid": track[1],
            "process_name": processes.get(track[0]),
            "thread_name": names.get(track),
        }
        for number, track in enumerate(tracks)
    }


def _event_rows(
    scenario: Scenario, events: Sequence[TraceEvent], epoch_ns: int, threads: Mapping[tuple[str, str], int]
) -> dict[str, list[Row]]:
    ids = [at for at, event in enumerate(events) if isinstance(event.source, HostSlice)]
    slices = [event.source for event in events if isinstance(event.source, HostSlice)]
    above = dict(zip(ids, ancestries(slices), strict=True))
    launches = {
        event.source.correlation: at
        for at, event in enumerate(events)
        if isinstance(event.source, HostSlice) and event.source.correlation is not None
    }
    operators = {taken.external_id: at for at, taken in zip(ids, slices, strict=True) if taken.category == "cpu_op"}
    rows: dict[str, list[Row]] = {}

    def add(table: str, row: Row) -> None:
        rows.setdefault(table, []).append(row)

    for at, event in enumerate(events):
        source, start_ns = event.source, event.start_ns + epoch_ns
        thread_id = threads.get((str(event.pid), str(event.tid)))
        if isinstance(source, HostSlice):
            own = above[at]
            add("host_slices", _slice_row(event, source, at, start_ns, thread_id, own, ids))
        elif isinstance(source, GpuOp):
            launch = launches.get(source.correlation)
            around = _around(launch, operators.get(event.args.get("External id", -1)), above, ids)
            add("gpu_ops", _op_row(scenario, event, source, at, start_ns, launch, around, ids))
        elif isinstance(source, SyncRecord):
            add("syncs", _sync_row(scenario, source, at, start_ns))
        elif isinstance(source, MemoryRecord):
            add("memory_events", _memory_row(source, at, start_ns, thread_id))
        elif event.phase != "M":
            add(*_other_row(event, at, start_ns, thread_id))
        if event.args and event.phase != "M":
            add("event_args", {"event_id": at, "args": _JSON.encode(event.args).decode()})
    rows.get("host_slices", []).sort(
        key=lambda row: (row["thread_id"], row["start_ns"], -row["dur_ns"], row["slice_id"])
    )
    return rows


def _around(launch: int | None, operator: int | None, above: Mapping[int, Ancestry], ids: Sequence[int]) -> Ancestry:
    """Return what encloses an op's launch; where that was not recorded, what encloses the operator of its id."""
    if launch is not None:
        return above[launch]
    if operator is None:
        return ROOT
    own = above[operator]
    return Ancestry(own.depth + 1, None, ids.index(operator), own.annotation, own.python, own.module, own.stack)


def _id(position: int | None, ids: Sequence[int]) -> int | None:
    return None if position is None else ids[position]


def _slice_row(
    event: TraceEvent,
    taken: HostSlice,
    at: int,
    start_ns: int,
    thread_id: int | None,
    own: Ancestry,
    ids: Sequence[int],
) -> Row:
    return {
        "slice_id": at,
        "thread_id": thread_id,
        "category": taken.category,
        "raw_category": event.category,
        "name": taken.name,
        "start_ns": start_ns,
        "dur_ns": event.dur_ns,
        "depth": own.depth,
        "parent_id": _id(own.parent, ids),
        "op_id": _id(own.operator, ids),
        "annotation_id": _id(own.annotation, ids),
        "python_id": _id(own.python, ids),
        "module_id": _id(own.module, ids),
        "stack_id": stack_below(own.stack, taken.name),
        "correlation": taken.correlation,
        "external_id": taken.external_id,
        "sequence": taken.sequence,
        "forward_thread": taken.forward_thread,
        "input_shapes": _shapes(taken),
    }


def _shapes(taken: HostSlice) -> str | None:
    if taken.category != "cpu_op" or "Input Dims" not in taken.args:
        return None
    return json.dumps(taken.args["Input Dims"], separators=(",", ":"))


def _op_row(
    scenario: Scenario,
    event: TraceEvent,
    op: GpuOp,
    at: int,
    start_ns: int,
    launch: int | None,
    around: Ancestry,
    ids: Sequence[int],
) -> Row:
    device = scenario.device
    row: Row = {
        "op_id": at,
        "device": op.device,
        "stream": written_stream(op.stream, device),
        "context": event.args.get("context"),
        "kind": op.kind,
        "is_comm": op.is_communication,
        "name": event.name,
        "start_ns": start_ns,
        "dur_ns": event.dur_ns,
        "correlation": op.correlation,
        "external_id": event.args.get("External id"),
        "launch_id": launch,
        "cpu_op_id": _id(around.operator, ids),
        "annotation_id": _id(around.annotation, ids),
        "python_id": _id(around.python, ids),
        "link_source": None if around.operator is None else "external_id",
        "graph_id": op.graph_id,
        "graph_node_id": op.graph_node_id,
        "size_bytes": op.size_bytes,
    }
    if op.copy is not None:
        kinds = copy_name(op, device).partition("(")[2].rstrip(")").lower().split(" -> ")
        row.update(copy_kind=op.copy.copy_kind, src_kind=kinds[0], dst_kind=kinds[1])
    elif op.kind == "memset":
        row["dst_kind"] = "device"
    if op.kernel is not None:
        row.update(_kernel_columns(op, scenario))
    if op.collective is not None:
        collective = op.collective
        row.update(
            collective=collective.name,
            group_name=collective.group.name,
            group_desc=collective.group.description,
            group_size=len(collective.group.ranks),
            group_ranks=json.dumps(list(collective.group.ranks)),
            comm_dtype=collective.dtype,
            in_elements=collective.in_elements,
            out_elements=collective.out_elements,
            comm_seq=collective.sequence,
        )
    return row


def _kernel_columns(op: GpuOp, scenario: Scenario) -> Row:
    kernel = op.kernel
    if kernel is None:
        return {}
    row: Row = {f"grid_{axis}": size for axis, size in zip("xyz", kernel.grid, strict=True)}
    row.update({f"block_{axis}": size for axis, size in zip("xyz", kernel.block, strict=True)})
    if scenario.device.vendor != "amd":
        blocks, warps, occupancy = kernel_loads(op, scenario.device)
        row.update(
            registers_per_thread=kernel.registers_per_thread,
            shared_memory_bytes=kernel.shared_memory_bytes,
            blocks_per_sm=blocks,
            warps_per_sm=warps,
            occupancy_percent=float(occupancy),
        )
    return row


def _sync_row(scenario: Scenario, sync: SyncRecord, at: int, start_ns: int) -> Row:
    def stream(number: int | None) -> int | None:
        return None if number is None else written_stream(number, scenario.device)

    return {
        "sync_id": at,
        "kind": sync.kind,
        "start_ns": start_ns,
        "dur_ns": sync.end_ns - sync.start_ns,
        "device": sync.device,
        "stream": stream(sync.stream),
        "correlation": sync.correlation,
        "wait_on_stream": stream(sync.wait_on_stream),
        "wait_on_correlation": sync.wait_on_correlation,
        "event_id": sync.event_id,
    }


def _memory_row(record: MemoryRecord, at: int, start_ns: int, thread_id: int | None) -> Row:
    return {
        "event_id": at,
        "thread_id": thread_id,
        "start_ns": start_ns,
        "kind": "oom" if record.address is None else "alloc" if record.size_bytes >= 0 else "free",
        "device_type": 1,
        "device": 0,
        "address": record.address,
        "size_bytes": record.size_bytes,
        "allocated_bytes": record.allocated_bytes,
        "reserved_bytes": record.reserved_bytes,
    }


def _other_row(event: TraceEvent, at: int, start_ns: int, thread_id: int | None) -> tuple[str, Row]:
    """Return the row of an event that is no record of work: flow, mark, or annotation drawn on the device."""
    row: Row = {
        "event_id": at,
        "category": event.category,
        "name": event.name,
        "start_ns": start_ns,
        "thread_id": thread_id,
    }
    if event.phase in "sf":
        return "flows", {
            **row,
            "flow_id": str(event.flow_id),
            "phase": event.phase,
            "binds_enclosing": True,
        }
    if event.phase == "i":
        return "instants", {**row, "scope": "g"}
    category = "gpu_annotation" if event.category == "gpu_user_annotation" else "span"
    return "async_slices", {
        **row,
        "category": category,
        "raw_category": event.category,
        "pid": str(event.pid),
        "tid": str(event.tid),
        "dur_ns": event.dur_ns,
    }
