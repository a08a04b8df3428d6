"""GPU work of a rocpd database: dispatches of kernels, and copies."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from traceanalyzer.ingest.amd.agents import Agents
from traceanalyzer.ingest.amd.copies import copy_kinds
from traceanalyzer.ingest.amd.recording import (
    Lookup,
    coded_column,
    groups_of,
    integers,
    ints,
    taken,
    unless_zero,
    work_batch,
)
from traceanalyzer.ingest.amd.rocpd_events import RocpdEvents, event_places
from traceanalyzer.ingest.amd.rocpd_reading import ProcessTables, ids_of
from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.nsys.masks import Column, count, negated


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
        device, between = agents.devices_of_copies(batch.column("dst_agent_id"), batch.column("src_agent_id"))
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
            "copy_kind": copy_kinds(names, between),
            "graph_id": unless_zero(batch.column("graph_exec_id")),
            "graph_node_id": unless_zero(batch.column("graph_node_id")),
        }
        yield work_batch(batch.num_rows, columns)
