"""The ingester: one export in, one trace per process that drives a GPU out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pyarrow as pa

from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.nesting import Once, in_order
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.device import DeviceRows, own_file
from traceanalyzer.ingest.nsys.facts import (
    OF_DEVICE,
    ExportFacts,
    Rank,
    RankEvidence,
    check_layout,
    find_rank,
    metadata_rows,
    mpi_ranks_of,
    read_facts,
)
from traceanalyzer.ingest.nsys.host_slices import (
    FAILED_CALLS,
    PROCESS_MASK,
    CallFilter,
    HostWriter,
    Launches,
    ThreadNumbers,
)
from traceanalyzer.ingest.nsys.nvtx import DETAIL_SCHEMA, NvtxSplitter, PayloadDecoder
from traceanalyzer.ingest.nsys.nvtx import SCHEMA as NVTX_SCHEMA
from traceanalyzer.ingest.nsys.reading import STREAMED, StagedExport, sql
from traceanalyzer.ingest.nsys.source import ExportSource, open_source
from traceanalyzer.ingest.nsys.tables import BY_RELATION, GPU_RELATIONS, TABLES
from traceanalyzer.ingest.nsys.times import ALIKE, check_times_of_devices, leave_out_repeated_work
from traceanalyzer.ingest.sink import TraceSink, define_calls, recognise_framework

_HOST_RELATIONS = ("runtime", "osrt")
_LONGEST_WORK_NS = 3_600 * 10**9
# Machine-wide samples can be many: written straight to the file.
# What is neither host slice nor GPU work, but for counters.
_TABLES: tuple[str, ...] = (
    "threads",
    "devices",
    "contexts",
    "async_slices",
    "instants",
    "memory_events",
    "managed_memory",
)
_TABLES += ("event_args", "process_output", "cpu_samples")
_SAMPLES = ("gpu_metric", "nic_metric", "ib_switch_metric", "eth_switch_metric")


@dataclass(frozen=True)
class Processes:
    """The processes that drive a GPU, as global process ids; `fill` is the one meant where GPU rows name none."""

    scopes: tuple[int, ...]
    fill: int | None

    def folder_names(self) -> list[str]:
        """Return one name a trace: '0' for one trace, else by process id."""
        if len(self.scopes) < 2:
            return ["0"]
        names = [f"pid{pid_of(scope)}" for scope in self.scopes]
        return names if len(set(names)) == len(names) else [f"pid{pid_of(s)}-{s >> 48}" for s in self.scopes]


def pid_of(global_id: int) -> int:
    """Return the operating system's process id."""
    return global_id >> 24 & 0xFFFFFF


def find_processes(source: ExportSource, defects: Defects) -> Processes:
    """Return which processes drive a GPU."""
    scopes: set[int] = set()
    unscoped = False
    for relation in GPU_RELATIONS:
        layout = source.layouts.get(relation)
        if layout is None or layout.unreadable or not source.row_counts[layout.stored_name]:
            continue
        if "globalPid" in layout.stored:
            scopes.update(scope & PROCESS_MASK for scope in source.distinct(layout, "globalPid"))
        else:
            unscoped = True
            defects.add("unknown-process", example=layout.stored_name)
    if not unscoped:
        return Processes(tuple(sorted(scopes)), None)
    runtime = source.layouts.get("runtime")
    callers = source.distinct(runtime, "globalTid") if runtime and "globalTid" in runtime.stored else []
    hosts = {thread & PROCESS_MASK for thread in callers}
    fill = hosts.pop() if len(hosts) == 1 else min(scopes, default=0)
    return Processes((fill,), fill)


def last_end_of(stage: StagedExport) -> int | None:
    """Return when the last call of the host or the work that it launched ended; None: the export has no calls.

    Work that ends longer after the last call than work may take has a damaged time.
    """
    hosts = [last for last in map(stage.last_end, _HOST_RELATIONS) if last is not None]
    work = [last for last in map(stage.last_end, GPU_RELATIONS) if last is not None]
    if not hosts:
        return max(work, default=None)
    return max([*hosts, *(last for last in work if last - max(hosts) <= _LONGEST_WORK_NS)])


def ingest_export(
    path: Path,
    name: str,
    folder: Path,
    options: IngestOptions,
    original: Path | None = None,
    defects: Defects | None = None,
) -> None:
    """Write every trace of an export into a subfolder of `folder`.

    `original` is the file that the user named, if the export was unpacked or made from it; `defects` are those met
    while doing so.
    """
    source = open_source(path)
    scratch = Path(tempfile.mkdtemp(dir=_made(folder), prefix=".spill-"))
    try:
        Export(source, name, folder, scratch, options, original or path, defects or Defects()).write()
    finally:
        source.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Export:
    """One export on its way into canonical tables."""

    def __init__(
        self,
        source: ExportSource,
        name: str,
        folder: Path,
        scratch: Path,
        options: IngestOptions,
        path: Path,
        defects: Defects,
    ) -> None:
        self._source = source
        self._path = path
        self._name = name
        self._options = options
        self._defects = defects
        if source.damage:
            self._defects.add("unreadable-rows", example=source.damage)
        self._scratch = scratch
        self._stage = StagedExport(source, scratch, self._defects)
        self._processes = find_processes(source, self._defects)
        self._names = self._processes.folder_names()
        self._sinks = [TraceSink(folder / trace) for trace in self._names]
        self._threads = ThreadNumbers({}, {})
        self._with_shapes: Collection[int] = ()
        self._launches = Launches(self._stage.row_count)

    def write(self) -> None:
        """Write all traces: the host first, because GPU work refers to it."""
        try:
            check_layout(self._source, self._defects)
            facts = read_facts(self._stage)
            if facts.base_ns is None:
                self._defects.add("unknown-clock")
            self._stage.set(base_ns=facts.base_ns or 0, sync_numbering=facts.sync_numbering, scope=None)
            self._stage.set(host=facts.host or self._name)
            self._stage.set(gpu_scopes=list(self._processes.scopes), takes_foreign=True, pid=None)
            define_calls(self._stage.connection)
            self._stage.run("macros")
            splitter = self._write_host()
            self._tell(0.5)
            devices = DeviceRows(self._stage, list(self._processes.scopes), self._processes.fill, self._launches)
            devices.prepare()
            used = self._write_devices(devices)
            devices.keep_details()
            evidence = self._rank_evidence(facts, splitter, used)
            for index in range(len(self._sinks)):
                devices.enter(self._sinks[index])
                self._write_trace(index, facts, evidence)
            for sink in self._sinks:
                sink.close()
            self._tell(1.0)
        finally:
            self._stage.close()

    def _sink_of(self, scope: int) -> tuple[int, TraceSink]:
        scopes = self._processes.scopes
        index = scopes.index(scope) if len(scopes) > 1 and scope in scopes else 0
        return index, self._sinks[index]

    def _write_host(self) -> NvtxSplitter:
        stage = self._stage
        for table in TABLES:
            if table.relation not in (*STREAMED, *GPU_RELATIONS, "sync", "cuda_event"):
                stage.load(table.relation)
        stage.leave_out_repeated("memory_usage")
        self._keep_one_string_an_id()
        stage.run("strings")
        stage.run("sched_intervals")
        calls = CallFilter(self._defects)
        entries = pa.Table.from_batches(stage.rows("payload_entry"), BY_RELATION["payload_entry"].schema)
        self._decoder = PayloadDecoder(entries)
        splitter = NvtxSplitter(self._defects, self._decoder, partial(last_end_of, stage))
        stage.stream("runtime", calls)
        stage.stream("nvtx", splitter.split, last=splitter.held())
        stage.stream("osrt")
        writer = HostWriter(
            stage.connection,
            self._sink_of,
            self._threads,
            self._processes.scopes,
            cache(splitter.detailed_ids),
            self._launches,
        )
        once = Once(("category", "name_id", "text", "correlation"))
        writer.write(once.each(in_order(stage.select("host_slices"), self._scratch)))
        self._defects.add("repeated-record", once.left_out, "slices of the host")
        self._with_shapes = writer.with_shapes
        self._defects.add("duplicate-correlation", self._launches.close())
        stage.put("failed_calls", FAILED_CALLS, iter(calls.failed))
        stage.put("nvtx_other", NVTX_SCHEMA, iter(splitter.other))
        stage.put("nvtx_crossing", NVTX_SCHEMA, iter(splitter.crossing))
        stage.put("nvtx_details", DETAIL_SCHEMA, iter(splitter.details))
        stage.run("strings_left")
        return splitter

    def _keep_one_string_an_id(self) -> None:
        """Keep one of several strings of an id, which would give every row that names it twice."""
        connection = self._stage.connection
        count, different = connection.execute("SELECT count(*), count(DISTINCT id) FROM string_ids").fetchall()[0]
        if count > different:
            self._defects.add("repeated-string", count - different)
            connection.execute(
                "CREATE OR REPLACE TABLE string_ids AS SELECT id, any_value(value) AS value FROM string_ids GROUP BY id"
            )

    def _write_devices(self, devices: DeviceRows) -> list[list[int]]:
        """Write GPU work, and return the devices that each process used."""
        used = []
        for index, sink in enumerate(self._sinks):
            self._enter(index)
            devices.write(sink)
            sink.finish("host_slices")
            slices = sink.path("host_slices")
            leave_out_repeated_work(self._stage.connection, own_file(sink, "gpu_ops"), self._defects, None, ALIKE)
            check_times_of_devices(self._stage.connection, own_file(sink, "gpu_ops"), slices, self._defects)
            rows = self._stage.connection.execute("SELECT DISTINCT device FROM gpu_contexts ORDER BY device").fetchall()
            used.append([device for (device,) in rows])
        if not any(used):
            self._defects.add("no-gpu-work")
        return used

    def _enter(self, index: int) -> None:
        """Point the SQL files' variables at one trace."""
        scopes = self._processes.scopes
        many = len(scopes) > 1
        self._stage.set(
            scope=scopes[index] if many else None,
            takes_foreign=index == 0,
            pid=pid_of(scopes[index]) if scopes else None,
        )

    def _rank_evidence(self, facts: ExportFacts, splitter: NvtxSplitter, used: Sequence[Sequence[int]]) -> RankEvidence:
        connection = self._stage.connection
        names = connection.execute("SELECT globalTid, text FROM nvtx_other WHERE eventType = 39 ORDER BY event_id")
        thread_names = names.fetchall()
        mapped: dict[int, list[int]] = {}
        for pid, gpu in connection.execute("SELECT pid, gpuId FROM cuda_device ORDER BY ALL").fetchall():
            mapped.setdefault(pid, []).append(gpu)
        scopes = self._processes.scopes
        devices = {
            scope: mapped[pid_of(scope)] if len(mapped.get(pid_of(scope), ())) == 1 else used[index]
            for index, scope in enumerate(scopes)
        }
        rank_rows = [
            {"globalTid": thread, "rank": rank}
            for thread, rank in connection.execute("SELECT globalTid, rank FROM mpi_rank").fetchall()
        ]
        return RankEvidence(mpi_ranks_of(rank_rows, thread_names), self._decoder.inits, facts.environment, devices)

    def _write_trace(self, index: int, facts: ExportFacts, evidence: RankEvidence) -> None:
        """Write what is neither host slice nor GPU work."""
        self._enter(index)
        stage, sink, scopes = self._stage, self._sinks[index], self._processes.scopes
        numbered = self._threads.numbers
        own = [thread for thread in numbered if self._sink_of(thread & PROCESS_MASK)[0] == index]
        rows = {"thread": own, "thread_id": [numbered[thread] for thread in own]}
        numbers = pa.schema([("thread", pa.int64()), ("thread_id", pa.int64())])
        stage.put("thread_numbers", numbers, iter([pa.RecordBatch.from_pydict(rows, numbers)]))
        has_counters = index == 0 and any(stage.has_rows(relation) for relation in _SAMPLES)
        for table in _TABLES:
            found = stage.connection.sql(sql(table)).to_arrow_table()
            if found.num_rows:
                sink.append(table, found)
        if has_counters:
            stage.stream("gpu_metric")
            stage.stream("nic_metric")
            stage.write("counters", own_file(sink, "counters"))
        scope = scopes[index] if scopes else None
        rank = find_rank(scope or 0, scopes, evidence)
        sink.append("metadata", metadata_rows(facts, self._source, rank.source if rank else None))
        sink.append("traces", self._trace_row(index, facts, rank))
        sink.append("defects", self._defects.table())

    def _trace_row(self, index: int, facts: ExportFacts, rank: Rank | None) -> pa.Table:
        sink = self._sinks[index]
        first_ns, last_ns, own_count = self._bounds(sink)
        version = f"NVIDIA Nsight Systems {facts.product_version}" if facts.product_version else None
        schema = f" (schema {facts.schema_version})" if facts.schema_version else ""
        row: dict[str, object] = {
            "trace": self._name if len(self._sinks) == 1 else f"{self._name}#{self._names[index].removeprefix('pid')}",
            "path": str(self._path),
            "format": "nsys",
            "recorder": "nsys",
            "framework": recognise_framework(self._stage.connection, sink),
            "producer": version and version + schema,
            "vendor": "nvidia",
            "host": facts.host,
            "rank": rank.rank if rank else None,
            "rank_source": rank and ("device" if rank.source == OF_DEVICE else "metadata"),
            "world_size": rank.world_size if rank else None,
            "backend": None,
            "base_ns": facts.base_ns,
            "first_ns": first_ns,
            "last_ns": last_ns,
            "size_bytes": _size(self._path),
            "event_count": self._stage.event_count if len(self._sinks) == 1 else own_count,
            "truncated": self._defects.lost,
            "has_shapes": index in self._with_shapes,
            "has_stacks": False,
            "has_memory": self._stage.has_rows("memory_usage"),
            "has_sync_events": self._stage.has_rows("sync"),
        }
        return pa.Table.from_pylist([row], sink.schema("traces"))

    def _bounds(self, sink: TraceSink) -> tuple[int | None, int | None, int]:
        """Return the first start and the last end of the trace's GPU work and host slices, and how many they are."""
        sink.finish("host_slices")
        paths = [str(sink.path("host_slices")), str(own_file(sink, "gpu_ops"))]
        first, last, count = self._stage.connection.execute(
            "SELECT min(start_ns), max(start_ns + dur_ns), count(*) FROM read_parquet($paths, union_by_name = true)",
            {"paths": paths},
        ).fetchall()[0]
        return first, last, count

    def _tell(self, share: float) -> None:
        size = _size(self._path)
        self._options.report(Progress(self._path, int(size * share), size, int(self._stage.event_count * share)))


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.glob("*.parquet") if file.is_file())
