"""From Parquet parts of events to the canonical tables of one trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest import Source
from traceanalyzer.ingest.device_check import SLOT_NS
from traceanalyzer.ingest.nesting import FILE_BITS, Nester
from traceanalyzer.ingest.sink import TraceSink, recognise_framework
from traceanalyzer.ingest.trace_events.chunks import metadata_rows, process_groups, sql, type_gpu_work
from traceanalyzer.ingest.trace_events.devices import (
    check_times_of_devices,
    describe_devices,
    devices_run_in_order,
    end_overlong_steps,
    leave_out_far_events,
    leave_out_far_marks,
    leave_out_lost_devices,
    leave_out_repeated_records,
    name_nameless_work,
    whole_number,
)
from traceanalyzer.ingest.trace_events.facts import (
    ROCPROFV3,
    XLA,
    Program,
    Recorder,
    describe_trace,
    drop_unusable_values,
    is_of_pytorch,
    name_recorder,
    number_launches,
    recast,
)
from traceanalyzer.ingest.trace_events.frames import (
    ROUNDING_NS,
    FrameEnds,
    close_begins,
    end_open_slices,
    say_that_open,
)
from traceanalyzer.ingest.trace_events.host_order import BATCH_ROWS, nested_rows, regular_batches, sorted_slices
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.reader import Parts

# Times of zero are real where a trace begins near zero; where all others are a day away they are lost times.
_FAR_FROM_ZERO_NS = 86_400 * 10**9
# XLA's profiler leaves out what goes beyond, and does not say so.
_XLA_EVENT_LIMIT = 1_000_000
_PLAIN_TABLES = ("syncs", "memory_events", "instants", "counters", "flows", "async_slices")
# The kinds of events, as `kinds.sql` lists them, of which each query reads some; without them it has no rows.
_KINDS_OF = {
    "begin_end": {"B", "E"},
    "syncs": {"sync"},
    "memory_events": {"i", "I", "R"},
    "instants": {"i", "I", "R"},
    "counters": {"C"},
    "bad_counters": {"C"},
    "flows": {"s", "t", "f", "X"},
    "async_slices": {"b", "e", "S", "F", "n", "async"},
    "named_metadata": {"M"},
    "gpu_sorted": {"gpu"},
}


class Assembler:
    """Builds the canonical tables of a trace out of its parts."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        stage: Path,
        sink: TraceSink,
        parts: Parts,
        losses: Losses,
        recorder: Recorder | None = None,
    ) -> None:
        self._database = database
        self._stage = stage
        self._sink = sink
        self._parts = parts
        self._losses = losses
        drop_unusable_values(parts.document.metadata, losses)
        self._base_ns = whole_number(parts.document.metadata.get("baseTimeNanoseconds"))
        self._kinds: set[str] = set()
        self._all_in_order = False  # no kernel may begin before what is ahead of it on its stream has ended
        self._recorder = recorder
        self._drop_zero = False  # times of zero are lost times; the span of all others shows it
        self._open_ids: list[int] = []  # events that began and never ended
        # First event of a batch that lost values, its name, and how many values the batch lost.
        self._lost: list[tuple[int, str | None, int]] = []
        self._last_ns = 0

    def assemble(self, path: Source) -> None:
        """Write every table."""
        self._database.execute("SET preserve_insertion_order = true")
        type_gpu_work(self._database, self._files("gpu_events"), self._stage / "gpu-typed.parquet")
        self._recast()
        self._kinds = {kind for (kind,) in self._rows("kinds")}
        self._close_begin_events()
        if self._recorder is None and self._has("gpu_sorted"):
            number_launches(self._database, self._stage, self._files)
        first_ns, last_ns, zeros, deviceless, has_hip, has_sycl, lost_count = self._rows("span")[0]
        self._drop_zero = zeros > 0 and first_ns is not None and first_ns > _FAR_FROM_ZERO_NS
        changed = lost_count > 0 and leave_out_lost_devices(self._database, self._stage, self._losses)
        if self._check_times(in_order=has_hip) or changed:
            first_ns, last_ns, _, _, _, _, lost_count = self._rows("span")[0]
        self._last_ns = last_ns or 0
        self._end_open_events()
        counts = (zeros if self._drop_zero else 0, deviceless, lost_count)
        for defect, count in zip(("zero-timestamp", "device-unknown", "bad-number"), counts, strict=True):
            if count:
                self._losses.add(defect, None, count=count)
        self._sink.append("metadata", metadata_rows(self._parts.document.metadata, self._sink.schema("metadata")))
        if crossings := self.fill_tables():
            self._losses.add("crossing-slices", None, count=crossings.total())
        span = (None, None) if first_ns is None else (first_ns + (self._base_ns or 0), last_ns + (self._base_ns or 0))
        by_pytorch, has_shapes, by_rocprof = self._rows("host_facts")[0]
        if by_rocprof and self._recorder is None:
            self._recorder = ROCPROFV3
        vendor = "amd" if has_hip else "intel" if has_sycl else None
        vendor = self._recorder.vendor if self._recorder is not None and self._recorder.vendor else vendor
        devices = describe_devices(self._parts.document.metadata, self._known_devices(), vendor)
        self._sink.append("devices", pa.Table.from_pylist(devices, self._sink.schema("devices")))
        program = self._program(devices, has_pytorch_events=by_pytorch)
        recorded = self._recorded() | {"shapes": has_shapes}
        trace = describe_trace(path, self._parts, devices, span, self._base_ns, recorded, program)
        self._sink.append("traces", pa.Table.from_pylist([trace], self._sink.schema("traces")))
        self._sink.append("defects", pa.Table.from_pylist(self._losses.rows(), self._sink.schema("defects")))

    def assemble_together(self, in_order: bool) -> Counter[int] | None:
        """Write the tables of several files whose GPU work is typed; None where one of them needs a repair.

        Returns how many slices cross, by the number of the file.
        """
        self._database.execute("SET preserve_insertion_order = true")
        self._kinds = {kind for (kind,) in self._rows("kinds")}
        if self._has("gpu_sorted") and self._check_devices(in_order=in_order):
            return None
        where = (self._database, self._stage, self._losses)
        if end_overlong_steps(*where) or leave_out_repeated_records(*where, has_work=False):
            return None
        crossings = self.fill_tables()
        return None if self._losses.rows() else crossings

    def fill_tables(self) -> Counter[int]:
        """Write the tables of events, and return how many slices cross, by the number of the file."""
        self._database.execute(sql("threads"), self._parameters("threads"))
        self._copy("threads", self._database.sql("FROM threads ORDER BY thread_id"))
        # One after the other: beside the sort of a large trace nothing else fits into the memory limit.
        crossings = self._nest_host_slices()
        for table in _PLAIN_TABLES:
            if self._has(table):
                self._copy(table, self._query(table))
        if self._has("bad_counters"):
            self._count_lost("bad_counters", "bad-counter")
        if self._kinds - {"gpu"}:
            self._note_lost_values()
        if self._has("gpu_sorted"):
            self._link_gpu_ops()
        self._sink.finish("gpu_ops")
        if self._has("named_metadata"):
            self._copy("metadata", self._query("named_metadata"))
        return crossings

    def _has(self, name: str) -> bool:
        """Return whether there are events that a query may have rows of."""
        return not self._kinds.isdisjoint(_KINDS_OF[name])

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql(name), self._parameters(name)).fetchall()

    def _query(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return the rows of one of the SQL files, to be fetched in batches; it is planned twice."""
        return self._database.sql(sql(name), params=self._parameters(name))

    def _parameters(self, name: str) -> dict[str, object]:
        """Return the values of the parameters that a SQL file names."""
        return {key: self._parameter(key) for key in _parameter_names(name)}

    def _parameter(self, name: str) -> object:
        match name:
            case "host" | "gpu_events" | "gpu" | "other":
                return self._files(name)
            case "base_ns":
                return self._base_ns or 0
            case "drop_zero":
                return self._drop_zero
            case "several_processes":
                return "several-processes" in self._losses
            case "launches_later":
                return self._recorder is not None and self._recorder.launches_later
            case "slices":
                return str(self._sink.path("host_slices"))
            case "all_in_order":
                return self._all_in_order
            case "last_ns":
                return self._last_ns
        return {"rounding_ns": ROUNDING_NS, "slot_ns": SLOT_NS}[name]

    def _files(self, part: str) -> list[str]:
        return sorted(str(path) for path in self._stage.glob(f"{part}-*.parquet"))

    def _copy(self, table: str, rows: Any) -> None:
        for batch in rows.to_arrow_reader(BATCH_ROWS):
            self._sink.append(table, batch)
            if "lost" in batch.schema.names and (count := pc.sum(batch.column("lost")).as_py()):
                first = (
                    batch.filter(pc.greater(batch.column("lost"), pa.scalar(0)))
                    .sort_by(batch.schema.names[0])
                    .slice(0, 1)
                )
                self._lost.append((first.column(0)[0].as_py(), first.column("name")[0].as_py(), count))

    def _note_lost_values(self) -> None:
        """Count the values that events other than host slices and GPU work lost, with the name of the first of them."""
        lost = [row for row in (*self._lost, *self._rows("lost_values")) if row[0] is not None]
        if lost:
            self._losses.add("bad-number", None, min(lost, key=lambda row: row[0])[1], sum(row[2] for row in lost))

    def _recast(self) -> None:
        """Rewrite the parts where a recorder wrote them whose processes and arrows have meanings of their own."""
        if self._recorder is XLA and self._timed_count() >= _XLA_EVENT_LIMIT:
            self._losses.add("event-limit", None)
        if self._recorder is not None:
            args = self._sink.files("event_args")
            self._recorder = recast(self._database, self._stage, self._recorder, self._files, args, self._losses)
            self._parts.has_stacks |= self._recorder.dialect == "autograd" and self._rows("dialects/has_frames")[0][0]

    def _close_begin_events(self) -> None:
        """Turn begin and end events into slices: an end closes the innermost open slice of its name and category."""
        if not self._has("begin_end"):
            return
        found = self._rows("begin_end")
        self._open_ids, kinds = close_begins(self._database, self._stage, found, self._files("other"), self._losses)
        self._kinds |= kinds

    def _end_open_events(self) -> None:
        """End events that never ended where the recording ends, and have their arguments say so."""
        if self._open_ids:
            end_open_slices(self._database, self._stage, self._open_ids, self._last_ns)
        if self._has("async_slices"):
            for event_id, name in self._rows("open_asyncs"):
                self._losses.add("unfinished-begin", None, name)
                self._open_ids.append(event_id)
        if self._open_ids:
            say_that_open(self._database, self._sink, self._open_ids)

    def _check_times(self, *, in_order: bool) -> bool:
        """Leave out what lies far outside the recording, and correct the times of devices; return whether any were."""
        changed = end_overlong_steps(self._database, self._stage, self._losses)
        changed |= leave_out_far_events(self._database, self._rows, self._stage, self._losses)
        if self._has("gpu_sorted"):
            changed |= self._check_devices(in_order=in_order)
        else:
            changed |= leave_out_repeated_records(self._database, self._stage, self._losses, has_work=False)
        return leave_out_far_marks(self._database, self._rows, self._stage, self._losses, changed=changed) or changed

    def _check_devices(self, *, in_order: bool) -> bool:
        """Correct the times of devices; return whether any were wrong."""
        self._all_in_order = in_order or devices_run_in_order(self._parts.document.metadata)
        self._read_devices()
        named = name_nameless_work(self._database, self._stage, self._losses)
        repeated = leave_out_repeated_records(self._database, self._stage, self._losses, has_work=True)
        if named or repeated:
            self._read_devices()
        corrected = check_times_of_devices(self._database, self._stage, self._losses)
        self._database.execute("DROP TABLE device_work; DROP TABLE device_waits")
        return corrected or repeated

    def _read_devices(self) -> None:
        for table in ("device_work", "device_waits"):
            self._database.execute(sql(table), self._parameters(table))

    def _ended_frames(self) -> pa.Table:
        """Return the durations of Python frames that were left open until the recording stopped."""
        ends = FrameEnds()
        files = {file for (file,) in self._rows("has_open_frames")} if self._parts.has_stacks else set()
        if files:
            for batch in self._query("frames").to_arrow_reader(BATCH_ROWS):
                ends.feed(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        ended = ends.ended()
        of_file = np.asarray(ended.column("event_id")) >> FILE_BITS
        return ended.filter(pa.array(np.isin(of_file, list(files))))

    def _count_lost(self, query: str, defect: str) -> None:
        count, example = self._rows(query)[0]
        if count:
            self._losses.add(defect, None, example, count)

    def _nest_host_slices(self) -> Counter[int]:
        """Write host slices: one batch is fetched, another one nested and a third one written at the same time.

        Returns how many cross, by the number of the file.
        """
        nester = Nester()
        batches = self._sorted_slices()
        with ThreadPoolExecutor(1) as fetching, ThreadPoolExecutor(1) as writing:
            written: Future[None] | None = None
            fetched = fetching.submit(next, batches, None)
            while (batch := fetched.result()) is not None:
                fetched = fetching.submit(next, batches, None)
                rows = nested_rows(nester, batch)
                if written is not None:
                    written.result()
                written = writing.submit(self._sink.append, "host_slices", rows)
            if written is not None:
                written.result()
        self._sink.finish("host_slices")
        return nester.crossings

    def _sorted_slices(self) -> Iterator[pa.Table]:
        """Return the host slices in nesting order, batch by batch."""
        threads = self._database.execute("SELECT thread_id, pid, tid FROM threads").fetchall()
        given = self._files("host"), threads, self._ended_frames, self._base_ns or 0, BATCH_ROWS, self._losses
        rows = sorted_slices(*given, drop_zero=self._drop_zero)
        if rows is None:
            self._database.register("ended_frames", self._ended_frames())
            rows = regular_batches(self._query("host_sorted").to_arrow_reader(BATCH_ROWS))
        return rows

    def _link_gpu_ops(self) -> None:
        """Write GPU work beside its links; one query for both would hold joins and rows in memory at once."""
        self._database.execute("SET preserve_insertion_order = false")  # the order of rows comes from the queries
        self._database.execute(sql("device_tracks"), self._parameters("device_tracks"))
        groups = process_groups(self._parts.document.metadata)
        self._database.register("process_groups", pa.Table.from_pylist(groups, _GROUP_SCHEMA))
        links = self._query("gpu_links").to_arrow_table()
        written = 0
        for batch in self._query("gpu_sorted").to_arrow_reader(BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            for name, column in zip(links.column_names, links.slice(written, len(rows)).columns, strict=True):
                rows = rows.append_column(name, column)
            self._sink.append("gpu_ops", rows)
            written += len(rows)

    def _known_devices(self) -> list[int]:
        """Return the devices that have work, or a process of their own."""
        named = self._recorder.devices if self._recorder is not None else ()
        if not self._has("gpu_sorted"):
            return list(named)
        rows = self._database.execute(
            "SELECT DISTINCT device FROM read_parquet($ops) ORDER BY device", {"ops": str(self._sink.path("gpu_ops"))}
        )
        return sorted({*named, *(device for (device,) in rows.fetchall())})

    def _program(self, devices: list[dict[str, Any]], *, has_pytorch_events: bool) -> Program:
        """Return what ran and what recorded it; the files of host slices and GPU work are finished."""
        names = self._database.execute("SELECT DISTINCT unnest([process_name, pid]) FROM threads").fetchall()
        processes = [name for (name,) in names if name is not None]
        metadata = self._parts.document.metadata
        recorder = self._recorder
        by_pytorch = recorder is None and (is_of_pytorch(metadata, devices, processes) or has_pytorch_events)
        vendors = {device["vendor"] for device in devices}
        vendor = vendors.pop() if len(vendors) == 1 else None
        framework = recognise_framework(self._database, self._sink, processes, by_pytorch=by_pytorch, vendor=vendor)
        if recorder is None:
            recorded_by: str | None = name_recorder(processes, framework, by_pytorch=by_pytorch)
            return Program(recorded_by, framework, processes, may_be_pytorch=framework != "onnxruntime")
        framework = (framework in (None, "cuda", "hip", "pytorch") and recorder.framework) or framework
        recorded_by = recorder.recorder or (framework if framework in ("jax", "tensorflow") else None)
        return Program(recorded_by, framework, processes, may_be_pytorch=False, said=recorder.said)

    def _timed_count(self) -> int:
        count = 0
        for part, timed in (("host", "TRUE"), ("gpu_events", "TRUE"), ("other", "phase <> 'M'")):
            if files := self._files(part):
                query = f"SELECT count(*) FROM read_parquet($files) WHERE {timed}"
                count += self._database.execute(query, {"files": files}).fetchall()[0][0]
        return count

    def _recorded(self) -> dict[str, bool]:
        if not self._kinds - {"gpu"}:
            return dict.fromkeys(("syncs", "memory", "accelerator"), False)
        counts = self._database.execute(
            "SELECT count(*) FILTER (WHERE class = 'sync') > 0, count(*) FILTER (WHERE name = '[memory]') > 0, "
            "count(*) FILTER (WHERE category = 'accelerator') > 0 FROM read_parquet($other)",
            {"other": self._files("other")},
        ).fetchall()[0]
        return dict(zip(("syncs", "memory", "accelerator"), counts, strict=True))


_GROUP_SCHEMA = pa.schema([("group_name", pa.string()), ("ranks", pa.string())])


@cache
def _parameter_names(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"\$([a-z_]+)\b", sql(name))))
