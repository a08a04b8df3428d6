"""Small files of one run assembled in one pass, with the tables that each has by itself.

Planning the queries of a trace takes as long as reading ten thousand events. So the events of many files lie in one
set of parts, as if they were processes of one file: ids, processes and devices have the number of the file in front,
by which the rows that come out are sorted. A file with anything that needs a look at it alone is left to be read alone.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, field
from msgspec.structs import replace

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, Source
from traceanalyzer.ingest.device_check import BRIEF_SILENCE_NS
from traceanalyzer.ingest.nesting import FILE_BITS
from traceanalyzer.ingest.sink import TraceSink, recognise_framework
from traceanalyzer.ingest.trace_events import chunks
from traceanalyzer.ingest.trace_events.assemble import Assembler
from traceanalyzer.ingest.trace_events.chunks import PART_OPTIONS, PARTS
from traceanalyzer.ingest.trace_events.devices import describe_devices, devices_run_in_order, whole_number
from traceanalyzer.ingest.trace_events.facts import (
    RECORDERS,
    Program,
    describe_trace,
    drop_unusable_values,
    is_of_pytorch,
)
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.merged_ranks import Process, SeveralRanksError, find_ranks
from traceanalyzer.ingest.trace_events.reader import EventReader, Parts
from traceanalyzer.ingest.trace_events.splitting import is_labelled, processes_in

_ID = 2**FILE_BITS - 1
_DEVICE_BITS = 12
_BEHIND_NUMBER = "\x1f"
_NUMBERED = re.compile(rf"(\d+){_BEHIND_NUMBER}(.*)", re.DOTALL)
_PHASES = frozenset("XMiIRstfC")
_PYTORCH = frozenset({"cpu_op", "user_annotation", "python_function", "cuda_runtime", "xpu_runtime"})
_ROCPROF = frozenset({"hip_api", "hsa_api", "marker_api", "rccl_api"})
_XLA_PROCESS = re.compile(r"/device:GPU:\d+|^/\w+:.* (Compute|Tensors)$")
_LINKS, _ANCESTORS = ("correlation", "external_id"), ("annotation_id", "python_id")
# The columns of a table that hold ids of events, its own first, and links that have the number of the file, too.
_IDS = {
    "host_slices": ("slice_id", "parent_id", "op_id", *_ANCESTORS, "module_id", *_LINKS),
    "gpu_ops": ("op_id", "launch_id", "cpu_op_id", *_ANCESTORS, *_LINKS),
    "syncs": ("sync_id",),
}
_TYPED = f"""
SELECT * REPLACE (
    device + (event_id >> {FILE_BITS} << {_DEVICE_BITS}) AS device,
    correlation + (event_id >> {FILE_BITS} << {FILE_BITS}) AS correlation,
    external_id + (event_id >> {FILE_BITS} << {FILE_BITS}) AS external_id
)
FROM read_parquet($path)
"""
_UNUSUAL_WORK = f"""
SELECT event_id >> {FILE_BITS} AS number
FROM read_parquet($path)
GROUP BY number
HAVING count(correlation) = 0
    OR bool_or(
        device IS NULL
        OR device NOT BETWEEN 0 AND {2**_DEVICE_BITS - 2}
        OR is_device_lost
        OR is_sycl
        OR track_pid IS NOT NULL
        OR lost_values > 0
        OR correlation NOT BETWEEN 0 AND {_ID}
        OR external_id NOT BETWEEN 0 AND {_ID}
    )
"""
_USED_DEVICES = f"SELECT DISTINCT event_id >> {FILE_BITS}, device FROM read_parquet($path) ORDER BY ALL"


class _File(Struct):
    """A file that was read, with the parts of its events, and what is known of it before it is assembled."""

    path: Source
    folder: Path
    parts: Parts
    losses: Losses
    tables: Mapping[str, Any]  # by part
    devices: list[int] = field(default_factory=list)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.parts.document.metadata


class _Alike(NamedTuple):
    """What files have in common that are assembled together."""

    base_ns: int | None
    is_hip: bool
    in_order: bool  # see `devices_run_in_order`
    groups: str  # of processes


def ingest_together(
    database: duckdb.DuckDBPyConnection, stage: Path, files: Sequence[tuple[Source, Path]], options: IngestOptions
) -> list[bool]:
    """Write the trace of each file into `0` of its folder; return of which: the others have to be read one by one."""
    read: dict[_Alike, list[_File]] = {}
    for number, (path, folder) in enumerate(files):
        file = _read(database, stage / str(number), path, folder, options)
        if file is not None:
            read.setdefault(_likeness(file), []).append(file)
    done: set[Path] = set()
    for number, (likeness, alike) in enumerate(read.items()):
        done |= {file.folder for file in _assemble(database, stage / f"alike{number}", likeness, alike)}
    return [folder in done for _, folder in files]


def _read(
    database: duckdb.DuckDBPyConnection, stage: Path, path: Source, folder: Path, options: IngestOptions
) -> _File | None:
    """Return a file with nothing unusual in it; None for others."""
    losses, args = Losses(), folder / "0" / "event_args.parquet"
    kept: dict[str, list[pa.Table]] = {}
    stage.mkdir()
    args.parent.mkdir()
    try:
        parts = EventReader(path, database, stage, args, options, losses, kept=kept).read()
    except (TraceAnalyzerError, OSError):  # read alone, it says why
        return None
    is_in_one = all(len(kept.get(part, ())) == 1 for part in PARTS)
    if not is_in_one or any(stage.glob("*.parquet")):  # DuckDB read a part, for something unusual
        return None
    tables = {part: rows[0] for part, rows in kept.items()}
    drop_unusable_values(parts.document.metadata, losses)
    file = _File(path, folder, parts, losses, tables)
    return file if _is_plain(file) else None


def _is_plain(file: _File) -> bool:
    """Return whether the events hold nothing that only `Assembler.assemble` repairs or takes apart."""
    host, gpu, other = (file.tables[part] for part in PARTS)
    if any(table.column("pid").null_count for table in (host, gpu, other)):
        return False
    if _numbers(other, "lost_flows").any() or _numbers(host, "lost_values").any():
        return False
    if not _texts(other, "phase") <= _PHASES or other.column("id2").null_count < len(other):
        return False
    if _texts(host, "raw_category") & _ROCPROF or not all(_are_ids(host.column(name)) for name in _LINKS):
        return False
    if is_labelled(host.column("name").slice(0, 100).to_pylist()):
        return False
    if any('"corr_id"' in text for text in gpu.column("args").slice(0, 10).to_pylist()):
        return False
    if not (is_of_pytorch(file.metadata, [], []) or _texts(host, "raw_category") & _PYTORCH):
        return False
    starts = np.concatenate([_numbers(table, "start_ns") for table in (host, gpu, _timed(other))])
    if not starts.all():
        return False
    starts = np.append(starts, _numbers(other, "start_ns"))
    starts = starts[starts != 0]
    if len(starts) and starts.max() - starts.min() >= BRIEF_SILENCE_NS:
        return False
    return _has_plain_processes(file)


def _has_plain_processes(file: _File) -> bool:
    """Return whether processes have names that no other recorder gives."""
    other = file.tables["other"]
    try:
        names = [json.loads(args)["name"] for args in _where(other, "name", "process_name").column("args").to_pylist()]
    except (ValueError, KeyError, TypeError):
        return False
    names = [*names, *_texts(other, "pid"), *_texts(file.tables["host"], "pid")]
    if not all(isinstance(name, str) for name in names) or any(map(_XLA_PROCESS.search, names)):
        return False
    return not any(recorder.is_it(names) for recorder in RECORDERS)


def _likeness(file: _File) -> _Alike:
    host = file.tables["host"]
    calls = _texts(_where(host, "category", "runtime"), "name")
    return _Alike(
        whole_number(file.metadata.get("baseTimeNanoseconds")),
        any(name.lower().startswith("hip") for name in calls),
        devices_run_in_order(file.metadata),
        json.dumps(chunks.process_groups(file.metadata)),
    )


def _assemble(
    database: duckdb.DuckDBPyConnection, stage: Path, likeness: _Alike, files: Sequence[_File]
) -> Sequence[_File]:
    """Write the tables of files that are alike, and return those of which they are written."""
    while len(files) > 1:
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        _write_parts(stage, files)
        usual = _usual(database, stage, files)
        if len(usual) == len(files):
            return files if _write_tables(database, stage, likeness, files) else ()
        files = usual
    return ()


def _write_parts(stage: Path, files: Sequence[_File]) -> None:
    """Write the parts of all files as one set, with the number of the file in ids and processes."""
    is_typed = all("gpu_typed" in file.tables for file in files)
    for part in (*PARTS, "gpu_typed") if is_typed else PARTS:
        numbered = []
        for number, file in enumerate(files):
            rows, first_id = file.tables[part], number << FILE_BITS
            columns = {name: rows.column(name) for name in rows.column_names}
            if "pid" in columns:
                pids = [f"{number}{_BEHIND_NUMBER}{pid}" for pid in columns["pid"].to_pylist()]
                columns["pid"] = pa.array(pids, pa.string()).dictionary_encode()
            for name in ("event_id", *(_LINKS if part == "host" else ())):
                columns[name] = pc.add(columns[name], first_id)
            numbered.append(pa.table(columns))
        whole = pa.concat_tables(numbered).unify_dictionaries()
        pq.write_table(whole, stage / f"{part}-together.parquet", **chunks.part_options(whole.schema))


def _usual(database: duckdb.DuckDBPyConnection, stage: Path, files: Sequence[_File]) -> Sequence[_File]:
    """Type the GPU work of all files, and return those that hold one rank, and no work that is unusual."""
    parts = {part: [str(stage / f"{part}-together.parquet")] for part in PARTS}
    processes: dict[int, list[Process]] = {}
    for process in processes_in(database, parts):
        number, pid = _NUMBERED.fullmatch(process.pid or "").groups()  # type: ignore[union-attr]
        processes.setdefault(int(number), []).append(replace(process, pid=pid))
    unusual = {number for number, own in processes.items() if not _is_one_rank(own)}
    typed, path = stage / "gpu-raw.parquet", stage / "gpu-typed.parquet"
    chunks.type_gpu_work(database, parts["gpu_events"], typed)
    unusual |= {number for (number,) in database.execute(_UNUSUAL_WORK, {"path": str(typed)}).fetchall()}
    if not unusual:
        for number, device in database.execute(_USED_DEVICES, {"path": str(typed)}).fetchall():
            files[number].devices.append(device)
        database.execute(f"COPY ({_TYPED}) TO $target ({PART_OPTIONS})", {"path": str(typed), "target": str(path)})
        typed.unlink()
    return [file for number, file in enumerate(files) if number not in unusual]


def _is_one_rank(processes: Sequence[Process]) -> bool:
    """Return whether processes are one rank's by their names alone."""

    def unknown(*_: bool) -> Any:
        raise SeveralRanksError

    try:
        return find_ranks(processes, unknown, unknown, None) is None
    except SeveralRanksError:
        return False


def _write_tables(database: duckdb.DuckDBPyConnection, stage: Path, likeness: _Alike, files: Sequence[_File]) -> bool:
    """Write the traces of all files; return False where one of them needs a repair."""
    with ExitStack() as open_sinks:
        sinks = [open_sinks.enter_context(TraceSink(file.folder / "0")) for file in files]
        together = _Sinks(stage, sinks)
        for file, sink in zip(files, sinks, strict=True):
            sink.append("metadata", chunks.metadata_rows(file.metadata, sink.schema("metadata")))
        parts = Parts(files[0].parts.document, has_stacks=any(file.parts.has_stacks for file in files))
        crossings = Assembler(database, stage, together, parts, Losses()).assemble_together(in_order=likeness.is_hip)
        if crossings is None:
            return False
        known: dict[object, str | None] = {}
        for number, (file, sink) in enumerate(zip(files, sinks, strict=True)):
            for table in ("host_slices", "gpu_ops"):
                sink.finish(table)
            if crossings[number]:
                file.losses.add("crossing-slices", None, count=crossings[number])
            _describe(database, file, sink, together.processes[number], likeness, known)
    return True


def _describe(
    database: duckdb.DuckDBPyConnection,
    file: _File,
    sink: TraceSink,
    processes: Sequence[str],
    likeness: _Alike,
    known: dict[object, str | None],
) -> None:
    """Write what a trace is besides its events; `known` are the frameworks of programs with these names."""
    host, gpu, other = (file.tables[part] for part in PARTS)
    devices = describe_devices(file.metadata, file.devices, "amd" if likeness.is_hip else None)
    sink.append("devices", pa.Table.from_pylist(devices, sink.schema("devices")))
    vendors = {device["vendor"] for device in devices}
    vendor = vendors.pop() if len(vendors) == 1 else None
    names = (frozenset(_texts(host, "name")), frozenset(_texts(gpu, "name")), vendor)
    if names not in known:  # that of ranks, which run one program, is looked for once; names of processes tell nothing
        known[names] = recognise_framework(database, sink, by_pytorch=True, vendor=vendor)
    operators = _where(host, "category", "cpu_op")
    recorded = {
        "syncs": "sync" in _texts(other, "class"),
        "memory": "[memory]" in _texts(other, "name"),
        "shapes": any(shapes.startswith("[[") for shapes in _texts(operators, "input_shapes")),
    }
    span = _span(file, likeness.base_ns or 0)
    program = Program("kineto", known[names], processes)
    trace = describe_trace(file.path, file.parts, devices, span, likeness.base_ns, recorded, program)
    sink.append("traces", pa.Table.from_pylist([trace], sink.schema("traces")))
    sink.append("defects", pa.Table.from_pylist(file.losses.rows(), sink.schema("defects")))


def _span(file: _File, base_ns: int) -> tuple[int | None, int | None]:
    """Return the first and the last instant of a file, as `span.sql` has them."""
    starts, ends = [], []
    for part in PARTS:
        rows = _timed(file.tables[part]) if part == "other" else file.tables[part]
        start_ns, dur_ns = _numbers(rows, "start_ns"), _numbers(rows, "dur_ns")
        if part == "other":
            dur_ns = np.where(np.array(rows.column("category").to_pylist(), object) == "span", 0, dur_ns)
        if part == "gpu_events":
            dur_ns = np.maximum(dur_ns, 0)
        starts.append(start_ns)
        ends.append(start_ns + dur_ns)
    first, last = np.concatenate(starts), np.concatenate(ends)
    return (int(first.min()) + base_ns, int(last.max()) + base_ns) if len(first) else (None, None)


class _Sinks(TraceSink):
    """Sorts the rows of all files by their numbers into the sinks of the files, as each would have them by itself."""

    def __init__(self, stage: Path, sinks: Sequence[TraceSink]) -> None:
        super().__init__(stage / "tables")
        self._sinks = sinks
        self._first_threads: dict[int, int] = {}
        self.processes: list[list[str]] = [[] for _ in sinks]

    def append(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows of all files; host slices, which queries read, also to a table of their own."""
        if table == "host_slices":
            super().append(table, rows)
        for number, own in _by_file(table, rows):
            columns = {name: _without_number(table, name, own.column(name)) for name in own.schema.names}
            if table == "threads":
                self._first_threads.setdefault(number, own.column("thread_id")[0].as_py())
                names = {name: None for key in ("process_name", "pid") for name in columns[key].to_pylist()}
                self.processes[number] += [name for name in names if name is not None]
            if "thread_id" in columns:
                first = pa.scalar(self._first_threads[number], pa.int32())
                columns["thread_id"] = pc.subtract(columns["thread_id"], first)
            self._sinks[number].append(table, pa.table(columns))


def _by_file(table: str, rows: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number of a file with its rows, which stand together."""
    if not rows.num_rows:
        return
    if table == "threads":
        files = np.array([int(pid.split(_BEHIND_NUMBER, 1)[0]) for pid in rows.column("pid").to_pylist()])
    else:
        files = _numbers(rows, _IDS.get(table, ("event_id",))[0]) >> FILE_BITS
    begins = np.append(0, np.flatnonzero(np.diff(files)) + 1)
    for begin, end in zip(begins, [*begins[1:], rows.num_rows], strict=True):
        yield int(files[begin]), rows.slice(begin, end - begin)


def _without_number(table: str, name: str, column: Any) -> Any:
    if name in _IDS.get(table, ("event_id",)):
        return pc.bit_wise_and(column, _ID)
    if table == "gpu_ops" and name == "device":
        return pc.bit_wise_and(column.cast(pa.int64()), 2**_DEVICE_BITS - 1)
    if name in ("pid", "key"):
        return pc.replace_substring_regex(column, rf"\d+{_BEHIND_NUMBER}", "", max_replacements=1)
    return column


def _texts(rows: Any, name: str) -> set[str]:
    return set(pc.unique(rows.column(name)).to_pylist()) - {None}


def _numbers(rows: Any, name: str) -> Any:
    """Return a column's numbers; 0 for none."""
    return np.asarray(pc.fill_null(rows.column(name), 0), np.int64)


def _where(rows: Any, name: str, text: str) -> Any:
    return rows.filter(pc.equal(rows.column(name), pa.scalar(text)))


def _timed(other: Any) -> Any:
    """Return the events that name nothing."""
    return other.filter(pc.not_equal(other.column("phase"), pa.scalar("M")))


def _are_ids(column: Any) -> bool:
    ends: Any = pc.min_max(column).as_py()
    return ends["min"] is None or (ends["min"] >= 0 and ends["max"] <= _ID)
