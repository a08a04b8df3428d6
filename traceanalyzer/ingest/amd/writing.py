"""From canonical rows of AMD's recorders to the tables of a trace.

GPU work of one process: linked with the calls that launched it, and written batch by batch.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.amd.agents import QueueTimes
from traceanalyzer.ingest.amd.host import ProcessSlices
from traceanalyzer.ingest.amd.recording import (
    COUNTERS,
    CounterRows,
    ProcessRecording,
    coded_column,
    flags,
    integers,
    ints,
    on_host,
    where,
)
from traceanalyzer.ingest.nesting import BATCH_ROWS, Int
from traceanalyzer.ingest.nsys.host_slices import LINKS, Launches
from traceanalyzer.ingest.nsys.masks import Column, above, count
from traceanalyzer.ingest.nsys.reading import Stream
from traceanalyzer.ingest.nsys.times import (
    ALIKE,
    check_times_of_devices,
    find_shared_launches,
    leave_out_repeated_work,
    open_shared_launches,
)
from traceanalyzer.ingest.sink import TraceSink, recognise_framework

_COMM = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
# HIP fills and copies memory by kernels of its own where no engine does.
_FILL, _COPY = "__amd_rocclr_fillBuffer", "__amd_rocclr_copy"
_KINDS = ("kernel", "memcpy", "memset")
_KERNEL, _MEMCPY, _MEMSET = range(len(_KINDS))
_COPIED = ("stream", "size_bytes", "block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z")
_IDS = ("graph_id", "graph_node_id", "shared_memory_bytes", "registers_per_thread")
_KERNELS_ALONE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LARGEST = 2**44
_LANES = pa.schema([(name, pa.int64()) for name in ("start_ns", "event", "dispatch", "name")])
_COUNTED_ALONE = """
SELECT count(*) FROM lanes
WHERE dispatch IS NOT NULL
HAVING bool_and(event IN (SELECT event FROM counted WHERE at_ns IS NULL AND event IS NOT NULL))
"""
# One row per counter and dispatch, or time at which it was read: the hardware's instances of a counter add up.
_COUNTED = """
SELECT
    $first_id + row_number() OVER (
        ORDER BY coalesce(counts.at_ns, lanes.start_ns, counts.sample_ns), counts.event, counts.counter
    ) AS event_id,
    $pid AS pid,
    counts.counter,
    lanes.name,
    counts.series,
    coalesce(counts.at_ns, lanes.start_ns, counts.sample_ns) AS start_ns,
    counts.value
FROM (SELECT event, counter, at_ns, sample_ns, series, sum(value) AS value FROM counted GROUP BY ALL) AS counts
LEFT JOIN lanes USING (event)
WHERE coalesce(counts.at_ns, lanes.start_ns, counts.sample_ns) > 0
ORDER BY event_id
"""


class WorkWriter:
    """Writes the GPU work of one process, and what its hardware counters counted."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, sink: TraceSink, recording: ProcessRecording, launches: Launches
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._recording = recording
        self._launches = launches
        self._names: dict[str | None, int] = {}
        self._queues = QueueTimes()
        self.devices: set[int] = set()
        self.count = 0

    def write(self) -> None:
        counters = self._recording.counters()
        lanes = (self._write_batch(batch) for batch in _gathered(self._recording.work()))
        if counters is None:
            deque(lanes, maxlen=0)
        else:
            self._connection.register("incoming_lanes", Stream(_LANES, lanes))
            self._connection.execute("CREATE TABLE lanes AS FROM incoming_lanes")
            self._connection.unregister("incoming_lanes")
            self._write_counters(counters)
            self._connection.execute("DROP TABLE lanes")

    def add_defects(self, repeated_count: int) -> None:
        """Count what is wrong with all work together, of which some was written twice."""
        defects = self._recording.defects
        overlaps, longest = self._queues.overlaps(each_once=repeated_count > 0)
        defects.add("overlap-in-queue", overlaps, f"by up to {longest} ns")
        defects.add("repeated-dispatch", max(0, self._queues.repeated() - repeated_count))

    def _write_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Write a batch and return what is asked of all work together."""
        rows = self._timed(batch)
        start, end = integers(rows.column("start_ns")), integers(rows.column("end_ns"))
        names = cast(Any, rows.column("name"))
        texts: list[str | None] = [*names.dictionary.to_pylist(), None]
        code = names.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
        is_copy = flags(rows.column("is_copy"))
        named = np.array([_kind_of(text) for text in texts], np.int64)[code]
        kind = np.where(is_copy, _MEMCPY, np.where(flags(rows.column("is_fill")), _MEMSET, named))
        is_comm = np.array([text is not None and _COMM.search(text) is not None for text in texts], np.bool_)[code]
        device = np.maximum(integers(rows.column("device")), 0)
        links = self._launches.find(pa.array(np.zeros(len(code), np.int64)), rows.column("correlation"))
        columns: dict[str, Column] = {
            name: rows.column(name) for name in ("op_id", *_COPIED, "correlation", "start_ns")
        }
        columns |= {name: _in_range(rows.column(name)) for name in _IDS}
        columns |= dict(zip(LINKS, links, strict=True))
        is_kernel = pa.array(kind == _KERNEL)
        columns |= {name: where(is_kernel, _in_range(rows.column(name))) for name in _KERNELS_ALONE}
        columns |= {
            "device": pa.array(device),
            "kind": coded_column(kind, pa.array(_KINDS, pa.string())),
            "is_comm": pa.array(is_comm & (kind == _KERNEL)),
            "name": names,
            "dur_ns": pa.array(end - start),
            "copy_kind": rows.column("copy_kind"),
            "link_source": where(links[1].is_valid(), pa.repeat("nesting", len(code))),
        }
        self._sink.append("gpu_ops", pa.table(columns))
        self._write_args(rows)
        self.devices.update(np.unique(device).tolist())
        self.count += rows.num_rows
        numbers = np.array([self._names.setdefault(text, len(self._names)) for text in texts], np.int64)
        self._queues.add(device, integers(rows.column("queue")), start, end, integers(rows.column("dispatch")))
        lanes = [rows.column(name) for name in ("start_ns", "event", "dispatch")]
        return pa.RecordBatch.from_arrays([*lanes, pa.array(numbers[code])], schema=_LANES)

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out work whose signal never completed: it has no start; keep aside what the host copies by itself."""
        size, at = batch.column("size_bytes"), batch.schema.get_field_index("size_bytes")
        is_size = above(size, -1)
        if negative_count := len(size) - size.null_count - count(is_size):
            self._recording.defects.add("number-out-of-range", negative_count, "a copy of fewer than 0 bytes")
            batch = batch.set_column(at, "size_bytes", where(is_size, size))
        start = integers(batch.column("start_ns"))
        untimed = int((start <= 0).sum())
        self._recording.defects.add("no-times", untimed, "GPU work that starts at 0")
        by_host = on_host(batch.column("copy_kind")) & (start > 0)
        if by_host.any():
            self._write_host_copies(batch.filter(pa.array(by_host)))
        is_work = (start > 0) & ~by_host
        return batch if is_work.all() else batch.filter(pa.array(is_work))

    def _write_host_copies(self, rows: pa.RecordBatch) -> None:
        start, names = integers(rows.column("start_ns")), cast(Any, rows.column("name")).dictionary_decode()
        columns: dict[str, Column] = {
            "event_id": rows.column("op_id"),
            "category": pa.array(["async"] * rows.num_rows),
            "name": names,
            "start_ns": rows.column("start_ns"),
            "dur_ns": pa.array(integers(rows.column("end_ns")) - start),
        }
        self._sink.append("async_slices", pa.table(columns))
        sizes = [f'{{"bytes": {size}}}' for size in rows.column("size_bytes").fill_null(0).to_pylist()]
        self._sink.append("event_args", pa.table({"event_id": rows.column("op_id"), "args": pa.array(sizes)}))

    def _write_args(self, rows: pa.RecordBatch) -> None:
        """Write what has no column; few different texts say it."""
        queues, queue = _coded(rows.column("queue"))
        sizes, size = _coded(rows.column("scratch_bytes"))
        ranges = cast(Any, rows.column("range"))
        names = [*ranges.dictionary.to_pylist(), None]
        name = ranges.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        said_of, place = _coded(pa.array((queue * len(sizes) + size) * len(names) + name))
        texts = []
        for one in said_of:
            pair, at = divmod(one, len(names))
            texts.append(_args_of(queues[pair // len(sizes)], sizes[pair % len(sizes)], names[at]))
        args = coded_column(place, pa.array(texts, pa.string()))
        said = pa.table({"event_id": rows.column("op_id"), "args": args.dictionary_decode()})
        self._sink.append("event_args", said.filter(said.column("args").is_valid()))

    def _write_counters(self, counters: CounterRows) -> None:
        self._connection.register("incoming_counts", Stream(COUNTERS, counters.batches))
        self._connection.execute("CREATE TABLE counted AS FROM incoming_counts")
        self._connection.unregister("incoming_counts")
        if alone := self._connection.execute(_COUNTED_ALONE).fetchall():
            self._recording.defects.add("serialised-by-counters", example=f"{alone[0][0]} dispatches")
        pid = self._recording.identity.pid
        parameters = {"first_id": self._recording.row_count, "pid": None if pid is None else str(pid)}
        names: list[str | None] = list(self._names)
        for batch in self._connection.sql(_COUNTED, params=parameters).to_arrow_reader(2**16):
            counted = integers(batch.column("counter")).tolist()
            of_kernels = zip(batch.column("name").to_pylist(), batch.column("series").to_pylist(), strict=True)
            said = {
                "name": pa.array([counters.names.get(one, f"counter {one}") for one in counted], pa.string()),
                "series": pa.array(
                    [(other if one is None else names[one]) or "" for one, other in of_kernels], pa.string()
                ),
            }
            rows = {name: batch.column(name) for name in ("event_id", "pid", "start_ns", "value")}
            self._sink.append("counters", pa.table(rows | said))
        self._connection.execute("DROP TABLE counted")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in large batches, as each becomes a part of the file that is compressed by itself."""
    held: list[pa.RecordBatch] = []
    row_count = 0
    for batch in batches:
        held.append(batch)
        row_count += batch.num_rows
        if row_count >= BATCH_ROWS:
            yield cast(Any, pa).concat_batches(held)
            held, row_count = [], 0
    if held:
        yield cast(Any, pa).concat_batches(held)


def _kind_of(name: str | None) -> int:
    if name is None:
        return _KERNEL
    return _MEMSET if name.startswith(_FILL) else _MEMCPY if name.startswith(_COPY) else _KERNEL


def _coded(numbers: Column) -> tuple[list[int], Int]:
    """Return the different numbers of a column, with NULL as the least integer, and the place of each row's there."""
    found = cast(Any, pa.array(integers(numbers))).dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64)


def _args_of(queue: int, scratch: int, name: str | None) -> str | None:
    said = [f'"queue": {queue}'] if queue >= 0 else []
    said += [f'"range": {json.dumps(name)}'] if name else []
    said += [f'"scratch_bytes": {scratch}'] if scratch > 0 else []
    return "{" + ", ".join(said) + "}" if said else None


def _in_range(column: Column) -> Column:
    numbers: Int = integers(column)
    return ints(np.where((numbers >= 0) & (numbers <= _LARGEST), numbers, -1))


# As the reader of Nsight's exports: sorting and joining spill to disk beyond this.
_MEMORY_LIMIT = "400MB"


def write_recordings(
    recordings: Iterator[ProcessRecording], path: Path, name: str, folder: Path, options: IngestOptions
) -> None:
    """Write every process of a file into a subfolder of `folder`; `path` is the file that the user named.

    Raises TraceAnalyzerError where the file holds no process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recording = None
    for recording in recordings:
        scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".spill-"))
        try:
            _TraceWriter(recording, path, name, folder, scratch, options).write()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if recording is None:
        raise TraceAnalyzerError("holds no process", path, "record it again with rocprofv3 --runtime-trace")


class _TraceWriter:
    """Writes the tables of one process."""

    def __init__(
        self, recording: ProcessRecording, path: Path, name: str, folder: Path, scratch: Path, options: IngestOptions
    ) -> None:
        self._recording = recording
        self._path = path
        self._name = name
        self._folder = folder
        self._options = options
        self._connection = duckdb.connect(
            config={
                # Streams come one batch after the other: a second thread waits for them, at the cost of a core.
                "threads": 1,
                "memory_limit": _MEMORY_LIMIT,
                "temp_directory": str(scratch),
                "preserve_insertion_order": False,
                "asof_loop_join_threshold": 0,  # estimates can be far too low
            }
        )

    def write(self) -> None:
        """Write every table: the host first, because GPU work refers to it."""
        recording = self._recording
        try:
            with TraceSink(self._folder / recording.folder) as sink:
                launches = Launches(recording.row_count)
                host = ProcessSlices(sink, recording, launches)
                host.write()
                recording.defects.add("duplicate-correlation", launches.close())
                self._report(0.5)
                work = WorkWriter(self._connection, sink, recording, launches)
                work.write()
                launches.forget()  # what follows needs the memory
                for table, rows in recording.others():
                    sink.append(table, host.with_threads(host.timed(rows)))
                host.write_threads()
                sink.append("devices", self._devices(sink, work))
                sink.append("metadata", self._metadata(sink))
                sink.finish("host_slices")
                sink.finish("gpu_ops")
                self._check_records(sink, work)
                check_times_of_devices(
                    self._connection, sink.path("gpu_ops"), sink.path("host_slices"), recording.defects, "hip_waits"
                )
                sink.finish("memory_events")
                row = self._trace_row(sink, host)
                recording.defects.add("clock-since-boot")
                if not (work.count or recording.defects.lost_records):
                    recording.defects.add("no-gpu-work")
                sink.append("defects", recording.defects.table())
                sink.append("traces", pa.Table.from_pylist([row], sink.schema("traces")))
            self._report(1.0)
        finally:
            self._connection.close()

    def _check_records(self, sink: TraceSink, work: WorkWriter) -> None:
        sink.finish("event_args")
        ops, args, defects = sink.path("gpu_ops"), sink.path("event_args"), self._recording.defects
        alike = "" if self._recording.identity.format == "rpd" else f"{ALIKE}, args"
        work.add_defects(leave_out_repeated_work(self._connection, ops, defects, args, alike))
        if find_shared_launches(self._connection, ops, kernels_alone=True):
            open_shared_launches(self._connection, ops, sink.path("host_slices"))

    def _devices(self, sink: TraceSink, work: WorkWriter) -> pa.Table:
        described = {row["device"]: dict(row) for row in self._recording.devices}
        vendor = self._recording.identity.vendor
        for device in work.devices:
            described.setdefault(device, {"device": device, "vendor": vendor})
        rows = [described[device] for device in sorted(described)]  # type: ignore[type-var]
        return pa.Table.from_pylist(rows, sink.schema("devices"))

    def _metadata(self, sink: TraceSink) -> pa.Table:
        kept = {key: value for key, value in self._recording.metadata.items() if value not in (None, {}, [])}
        rows = [{"key": key, "value": json.dumps(value, default=str)} for key, value in kept.items()]
        return pa.Table.from_pylist(rows, sink.schema("metadata"))

    def _trace_row(self, sink: TraceSink, host: ProcessSlices) -> dict[str, object]:
        recording, identity = self._recording, self._recording.identity
        first_ns, last_ns, count = self._connection.execute(
            "SELECT min(start_ns), max(start_ns + dur_ns), count(*) FROM read_parquet($paths, union_by_name = true)",
            {"paths": [str(sink.path("host_slices")), str(sink.path("gpu_ops"))]},
        ).fetchall()[0]
        (has_memory,) = self._connection.execute(
            "SELECT count(*) > 0 FROM read_parquet($path)", {"path": str(sink.path("memory_events"))}
        ).fetchall()[0]
        return {
            "trace": self._name if recording.folder == "0" else f"{self._name}#{recording.folder.removeprefix('pid')}",
            "path": str(self._path),
            "format": identity.format,
            "recorder": identity.recorder,
            "framework": recognise_framework(self._connection, sink, vendor=identity.vendor),
            "producer": identity.producer,
            "vendor": identity.vendor,
            "host": identity.host,
            "rank": identity.rank,
            "rank_source": None if identity.rank is None else "metadata",
            "world_size": identity.world_size,
            "backend": None,
            "base_ns": None,
            "first_ns": first_ns,
            "last_ns": last_ns,
            "size_bytes": self._path.stat().st_size,
            # The tables of an RPD file hold the rows of all its processes.
            "event_count": count if identity.format == "rpd" and recording.folder != "0" else recording.row_count,
            "truncated": recording.defects.lost,
            "has_shapes": host.has_shapes,
            "has_stacks": False,
            "has_memory": has_memory,
            "has_sync_events": False,
        }

    def _report(self, share: float) -> None:
        size = self._path.stat().st_size
        rows = int(self._recording.row_count * share)
        self._options.report(Progress(self._path, int(size * share), size, rows))
