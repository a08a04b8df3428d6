"""From canonical rows of AMD's recorders to the tables of a trace."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.amd.host import ProcessSlices
from traceanalyzer.ingest.amd.recording import ProcessRecording
from traceanalyzer.ingest.amd.work import WorkWriter
from traceanalyzer.ingest.frameworks import recognise_framework
from traceanalyzer.ingest.nsys.host.launches import Launches
from traceanalyzer.ingest.sink import TraceSink

# As the reader of Nsight's exports: sorting and joining spill to disk beyond this.
_MEMORY_LIMIT = "400MB"


def write_recordings(
    recordings: Iterator[ProcessRecording], path: Path, name: str, folder: Path, options: IngestOptions
) -> None:
    """Write every process of a file into a subfolder of `folder`; `path` is the file that the user named."""
    folder.mkdir(parents=True, exist_ok=True)
    for recording in recordings:
        scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".spill-"))
        try:
            _TraceWriter(recording, path, name, folder, scratch, options).write()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


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
                "threads": max(options.jobs, 1),
                "memory_limit": _MEMORY_LIMIT,
                "temp_directory": str(scratch),
                "preserve_insertion_order": False,
            }
        )

    def write(self) -> None:
        """Write every table: the host first, because GPU work refers to it."""
        recording = self._recording
        try:
            with TraceSink(self._folder / recording.folder) as sink:
                launches = Launches(recording.row_count)
                host = ProcessSlices(self._connection, sink, recording, launches)
                host.write()
                recording.defects.add("duplicate-correlation", launches.close())
                self._report(0.5)
                work = WorkWriter(self._connection, sink, recording, launches)
                work.write()
                for table, rows in recording.others():
                    sink.append(table, host.with_threads(rows))
                host.write_threads()
                sink.append("devices", self._devices(sink, work))
                sink.append("metadata", self._metadata(sink))
                sink.finish("host_slices")
                sink.finish("gpu_ops")
                sink.finish("memory_events")
                row = self._trace_row(sink, host)
                recording.defects.add("clock-since-boot")
                if not work.count:
                    recording.defects.add("no-gpu-work")
                sink.append("defects", recording.defects.table())
                sink.append("traces", pa.Table.from_pylist([row], sink.schema("traces")))
            self._report(1.0)
        finally:
            self._connection.close()

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
        first_ns, last_ns = self._connection.execute(
            "SELECT min(start_ns), max(start_ns + dur_ns) FROM read_parquet($paths, union_by_name = true)",
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
            "framework": recognise_framework(self._connection, sink),
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
            "event_count": recording.row_count,
            "truncated": recording.truncated,
            "has_shapes": host.has_shapes,
            "has_stacks": False,
            "has_memory": has_memory,
            "has_sync_events": False,
        }

    def _report(self, share: float) -> None:
        size = self._path.stat().st_size
        rows = int(self._recording.row_count * share)
        self._options.report(Progress(self._path, int(size * share), size, rows))
