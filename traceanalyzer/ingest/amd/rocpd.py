"""rocpd: the SQLite database that rocprofv3 writes since ROCm 7.0; read from its tables, never from its views."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.amd.agents import RANK_KEYS, SIZE_KEYS, Agent, Agents
from traceanalyzer.ingest.amd.recording import (
    AmdDefects,
    CounterRows,
    Identity,
    Lookup,
    ProcessRecording,
    allocation_rows,
    counter_batch,
    ints,
    taken,
)
from traceanalyzer.ingest.amd.rocpd_events import HostRows, RocpdEvents, parsed, work_of
from traceanalyzer.ingest.amd.rocpd_rows import ProcessTables, ids_of, suffixes_of
from traceanalyzer.ingest.nsys.source import SqliteSource
from traceanalyzer.text.visible import masked

_AGAIN = "record it again, or take another copy: the recorder was perhaps killed while writing"
_CONVERT = "`rocpd convert` of the same ROCm writes CSV: rocpd convert -i {} --output-format csv"
_LATER = re.compile(r"[4-9]|[1-9]\d")  # versions of the schema after 3
_PROCESS_FACTS = ("pid", "ppid", "init", "fini", "command")


def rocpd_recordings(path: Path, original: Path, defects: AmdDefects) -> Iterator[ProcessRecording]:
    """Yield every process of a database; `original` is the file that the user named."""
    with closing(SqliteSource(path, lambda tables, counts: {}, _AGAIN)) as source:
        suffixes = suffixes_of(source.tables)
        for suffix in suffixes:
            own = AmdDefects(dict(defects.counts), dict(defects.examples))
            tables = ProcessTables(source, suffix, own)
            yield RocpdRecording(tables, suffix if len(suffixes) > 1 else None, original)


class RocpdRecording(ProcessRecording):
    """One process of a rocpd database; `suffix` tells it from the others of its file."""

    def __init__(self, tables: ProcessTables, suffix: str | None, path: Path) -> None:
        self._tables = tables
        self.defects = tables.defects
        self.row_count = tables.event_count
        version = _version(tables, path)
        tables.check()
        tables.read_strings()
        process: dict[str, Any] = next(iter(tables.rows("process")), {})
        nodes = tables.rows("node")
        node: dict[str, Any] = next((row for row in nodes if row["id"] == process.get("nid")), next(iter(nodes), {}))
        pid = process.get("pid") if process.get("pid") is not None else process.get("id")
        environment = tables.environment()
        self.identity = Identity(
            format="rocpd",
            producer=f"rocprofv3, rocpd schema {version}",
            pid=pid,
            host=node.get("hostname") or None,
            rank=_first_number(environment, RANK_KEYS),
            world_size=_first_number(environment, SIZE_KEYS),
        )
        self.folder = f"pid{pid}-{suffix.strip('_')}" if suffix else "0"
        self.metadata: Mapping[str, object] = {
            "rocpd.schema_version": version,
            "rocpd.node": {key: value for key, value in node.items() if key != "event_id" and value not in (None, "")},
            "rocpd.process": _process_facts(process),
            "rocpd.settings": parsed(process.get("extdata"), self.defects),
            "rocpd.environment": environment,
        }
        self._agents = Agents(_agents_in(tables), self.defects, self.identity.host)
        self.devices: Sequence[Mapping[str, object]] = self._agents.rows
        self._events = RocpdEvents(tables.batches("event"), self.defects)
        self._host = HostRows(tables, self._events, pid)
        self._names, self._kinds = self._host.names, self._host.kinds

    def calls(self) -> Iterator[pa.RecordBatch]:
        return self._host.calls()

    def thread_names(self) -> Mapping[int, str]:
        return {row["id"]: row["name"] for row in self._tables.rows("thread") if row["name"] and row["id"] is not None}

    def work(self) -> Iterator[pa.RecordBatch]:
        yield from work_of(self._tables, self._events, self._agents)
        self._events.forget()

    def counters(self) -> CounterRows | None:
        if not self._tables.has_rows("pmc_event"):
            return None
        names = {row["id"]: row["symbol"] or row["name"] or "" for row in self._tables.rows("pmc")}
        return CounterRows(names, self._counter_batches())

    def _counter_batches(self) -> Iterator[pa.RecordBatch]:
        tracks = self._tables.rows("track")
        track_at, texts = Lookup(ids_of(tracks)), self._tables.strings(ids_of(tracks, "name_id"))
        reads = self._host.counter_reads
        series, times = taken(texts, track_at.find(reads.tracks)), ints(reads.times)
        for batch in self._tables.batches("pmc_event"):
            at, instead = reads.places(batch)
            counted = (batch.column(name) for name in ("source", "pmc_id", "value"))
            yield counter_batch(*counted, taken(times, at), taken(times, instead), taken(series, instead))

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        yield from self._host.others()
        allocated = self._tables.rows("allocate")
        if allocated:
            yield from allocation_rows(allocated, self._agents.gpus(ids_of(allocated, "agent_id")).tolist())


def _version(tables: ProcessTables, path: Path) -> str:
    """Return the version of the schema. Raises TraceAnalyzerError where it is one that is not read."""
    facts = {row["tag"]: row["value"] for row in tables.rows("metadata")}
    version = str(facts.get("schema_version") or "3")
    compression = f" whose texts are compressed ({facts['compression']})" if "compression" in facts else ""
    if _LATER.match(version) or compression:
        what = f"is a rocpd database of schema {version}{compression}, which is not read yet"
        raise TraceAnalyzerError(what, path, _CONVERT.format(path.name))
    return version


def _process_facts(process: Mapping[str, Any]) -> dict[str, object]:
    known = {key: process[key] for key in _PROCESS_FACTS if process.get(key) not in (None, "")}
    return {key: masked(value) if isinstance(value, str) else value for key, value in known.items()}


def _agents_in(tables: ProcessTables) -> Iterator[Agent]:
    rows = tables.rows("agent")
    for row, key in zip(rows, ids_of(rows).tolist(), strict=True):
        facts = parsed(row["extdata"], tables.defects)
        yield Agent(key, row["type"] or "", row["type_index"], row["product_name"] or row["name"], facts)


def _first_number(environment: Mapping[str, int], keys: Sequence[str]) -> int | None:
    return next((environment[key] for key in keys if key in environment), None)
