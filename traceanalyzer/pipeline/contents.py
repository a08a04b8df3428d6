"""What the store holds of a run, in order: its traces with their ranks, and its tables of Nsight Compute.

The catalogue shows it: every table and metric as documented views, for any DuckDB client.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from traceanalyzer.discovery import RunSources, natural_key, ranks_from_names
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import MEMBERS_NAME
from traceanalyzer.remote.location import Location
from traceanalyzer.store.inputs import NcuTable, StoredTrace
from traceanalyzer.store.store import Store

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject


def renew_catalog(
    opened_store: Store,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    reused: bool,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace] = (),
    *,
    requested: bool,
) -> Future[None] | None:
    """Begin to write the catalogue if it is `requested` or there, unless it already shows what was opened.

    Below a folder with a question mark in its name there is none: DuckDB takes what follows for parameters.
    """
    if "?" in str(opened_store.folder.absolute()) or not (requested or opened_store.catalog.exists()):
        return None
    beside_traces = f" {hash_of(ncu_tables)}" if ncu_tables else ""
    shown_derived, *shown_beside = (opened_store.catalog.shows() or "").partition(" ")
    is_shown = opened_store.catalog.shows() is not None and "".join(shown_beside) == beside_traces
    if reused and is_shown and (derived is None or shown_derived == derived.name):
        return None
    shows = ("" if derived is None else derived.name) + beside_traces
    beside = ThreadPoolExecutor(1)
    writing = beside.submit(
        opened_store.catalog.replace, shows, lambda file: _write_catalog(file, traces, derived, ncu_tables, captures)
    )
    beside.shutdown(wait=False)
    return writing


def _write_catalog(
    file: Path,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace],
) -> None:
    from traceanalyzer.query.empty import add_comments
    from traceanalyzer.query.engine import connect

    with connect(traces, derived, file, ncu_tables=ncu_tables, captures=captures) as connection:
        add_comments(connection)


def member_names(folder: Path) -> dict[str, str]:
    """Return the member of an archive that each part of a folder of traces was; {}: it was no archive."""
    try:
        names: dict[str, str] = json.loads((folder / MEMBERS_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return names


def ncu_tables_of(found: RunSources, folders: Sequence[tuple[Path | RemoteObject, Path]]) -> list[NcuTable]:
    """Return every table in the folders of a run's sources, by name; one that lies elsewhere keeps its path."""
    names = {}
    for source, folder in folders:
        members = member_names(folder)
        name = found.name(source)
        name = source.as_posix() if isinstance(source, Path) and name.startswith("../") else name
        for file in folder.glob("*/ncu_launches.parquet"):
            names[file.parent] = f"{name}/{members[file.parent.name]}" if members else name
    return [NcuTable(*item) for item in sorted(names.items(), key=lambda item: natural_key(item[1]))]


def no_trace_beside(tables: Sequence[NcuTable], root: Path | Location) -> TraceAnalyzerError:
    """Return the error of a run that has tables and no trace."""
    alone = isinstance(root, Path) and root.is_file()
    what = "is a table of Nsight Compute, and no trace" if alone else "no traces beside tables of Nsight Compute"
    hint = (
        "counters do not tell when kernels ran: record the job with nsys or torch.profiler, and give its trace with "
        f"--ncu {tables[0].file}"
    )
    return TraceAnalyzerError(what, str(root), hint)


def hash_of(tables: Sequence[NcuTable]) -> str:
    """Return a hash of what tables hold, which their folders are named after, and of what they are called."""
    text = "\n".join(f"{table.folder.parent.name} {table.folder.name} {table.file}" for table in tables)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


# As `ingest.marks` writes it: that module takes Arrow, which takes long to start.
_CAPTURE = "capture"
# Clocks of several hosts differ by less.
_APART_NS = 10**9
_UNREAD = "unread\n"


class Contents(NamedTuple):
    """The traces of a run, by rank and then by name, why others in its files are none of the run, and its captures.

    Captures hold launches that were recorded into the graphs that the traces replay: they are no ranks of the run.
    """

    traces: list[StoredTrace]
    set_aside: list[TraceAnalyzerError]
    captures: list[StoredTrace]

    def below(self, store: Path) -> Contents:
        """Return them with the whole paths of their folders, for a process that works in another folder."""
        traces, captures = ([one.below(store) for one in those] for those in (self.traces, self.captures))
        return self._replace(traces=traces, captures=captures)


def traces_of(opened_store: Store, found: RunSources, folders: Sequence[tuple[Path | RemoteObject, Path]]) -> Contents:
    """Return the traces of the run; `folders` are sources with their folders of traces."""
    files = [file for source, folder in folders for file in _stored_files(found, source, folder) if file.parts]
    recorded = _recorded(opened_store, [part for file in files for part in file.parts])
    by_name = ranks_from_names(
        [file.name for file in files], lambda at: _are_apart([[recorded[part] for part in files[i].parts] for i in at])
    )
    local = _local_ranks(recorded)
    world_size = max((known.world_size for known in recorded.values() if known.world_size is not None), default=None)
    traces: list[StoredTrace] = []
    for file, name_rank in zip(files, by_name, strict=True):
        for part in file.parts:
            rank, told_by = recorded[part].rank, recorded[part].rank_source
            if part in local:
                rank = None
            elif rank is None and name_rank is not None and (world_size is None or name_rank < world_size):
                rank, told_by = name_rank, "name"
            name = file.name + (f"#{part.name.rpartition('.')[2]}" if len(file.parts) > 1 else "")
            traces.append(StoredTrace(part, name, file.path, rank, told_by if rank is not None else None))
    traces.sort(key=lambda t: (t.rank is None, t.rank or 0, natural_key(t.trace)))
    return _without_others(traces, recorded, _wholes(opened_store, traces, recorded))


def _local_ranks(recorded: Mapping[Path, _Recorded]) -> set[Path]:
    """Return the traces whose devices tell their rank, where processes of several hosts, or at once, have it, too."""
    of_devices = [(part, known) for part, known in recorded.items() if known.rank_source == "device"]
    of_rank: dict[int | None, list[_Recorded]] = {}
    for _, known in of_devices:
        of_rank.setdefault(known.rank, []).append(known)
    for own in of_rank.values():
        own.sort(key=lambda known: known.first_ns or 0)
        hosts = {known.host for known in own}
        if len(hosts) > 1 or any((b.first_ns or 0) < (a.last_ns or 0) for a, b in pairwise(own)):
            return {part for part, _ in of_devices}
    return set()


def _are_apart(files: Sequence[Sequence[_Recorded]]) -> bool:
    """Return whether files are of times so far apart that ranks of one run, on clocks of several hosts, are not."""
    parts = [part for file in files for part in file]
    if any((part.world_size or 1) > 1 for part in parts) or len({part.host for part in parts if part.host}) > 1:
        return False
    if any(part.first_ns is None or part.last_ns is None for part in parts):
        return False
    spans = sorted(
        (min(part.first_ns or 0 for part in file), max(part.last_ns or 0 for part in file)) for file in files
    )
    return all(later[0] - sooner[1] >= _APART_NS for sooner, later in pairwise(spans))


def _wholes(
    opened_store: Store, traces: Sequence[StoredTrace], recorded: Mapping[Path, _Recorded]
) -> dict[Path, StoredTrace]:
    """Return, of each trace that is a copy of another or of a part of it, the longest that holds all of its events."""
    # Of two with the same events, the first counts.
    order = {trace.folder: (-recorded[trace.folder].event_count, at) for at, trace in enumerate(traces)}
    longest_first = sorted(traces, key=lambda trace: order[trace.folder])
    of_rank: dict[int | None, list[StoredTrace]] = {}
    for trace in longest_first:
        of_rank.setdefault(trace.rank, []).append(trace)
    candidates: dict[Path, list[StoredTrace]] = {}
    for rank, own in of_rank.items():
        unranked = of_rank.get(None, [])
        alike = longest_first if rank is None else sorted([*own, *unranked], key=lambda trace: order[trace.folder])
        for at, part in enumerate(alike):
            longer = [whole for whole in alike[:at] if _may_be_part(part, whole, recorded)] if part.rank == rank else []
            if longer:
                candidates[part.folder] = longer
    if not candidates:
        return {}
    folders = {part: [whole.folder for whole in wholes] for part, wholes in candidates.items()}
    question = "\n".join(["copies of parts", *("\t".join(map(str, (part, *folders[part]))) for part in folders)])
    kept = opened_store.answers.get(question)
    if kept is None:
        bases = {trace.folder: recorded[trace.folder].base_ns or 0 for trace in traces}
        kept = json.dumps(_containing(folders, bases)).encode()
        opened_store.answers.keep(question, kept)
    found = zip(candidates.items(), json.loads(kept), strict=True)
    return {part: wholes[place] for (part, wholes), place in found if place is not None}


def _may_be_part(part: StoredTrace, whole: StoredTrace, recorded: Mapping[Path, _Recorded]) -> bool:
    """Return whether a trace may be a part of another of its rank, unless one of them has none.

    A trace cut before its clock's base counts from zero.
    """
    own, full = recorded[part.folder], recorded[whole.folder]
    if own.base_ns not in (None, full.base_ns) or own.host not in (None, full.host):
        return False
    if own.first_ns is None or own.last_ns is None or full.first_ns is None or full.last_ns is None:
        return False
    start, end = (ns - (own.base_ns or 0) + (full.base_ns or 0) for ns in (own.first_ns, own.last_ns))
    return full.first_ns <= start and end <= full.last_ns


# What stands for an event in each table: when it began, its name and its place; for a thread, its process.
_EVENTS = {
    "host_slices": "start_ns - $base_{0}, name, slice_id",
    "gpu_ops": "start_ns - $base_{0}, name, op_id",
    "threads": "-1, pid, 0",
}
_NO_EVENT = "(SELECT $base_{0}::BIGINT AS start_ns, NULL::VARCHAR AS name, NULL::BIGINT AS id LIMIT 0)"
_FIRST_EVENT = "SELECT start_ns, name FROM ({part}) ORDER BY id LIMIT 1"
# Which of some events another trace has: nearly all pairs of traces differ in one already.
_HELD = "SELECT DISTINCT start_ns, name FROM ({whole}) WHERE start_ns IN (SELECT unnest($starts_ns))"
_LACKED = """
    WITH part AS ({part}), whole AS ({whole})
    SELECT 1 FROM part ANTI JOIN whole ON whole.start_ns = part.start_ns AND whole.name IS NOT DISTINCT FROM part.name
    LIMIT 1
"""


def _containing(candidates: Mapping[Path, Sequence[Path]], bases: Mapping[Path, int]) -> list[int | None]:
    """Return for each trace the place of the first candidate that has all of its events, in the same processes."""
    import duckdb

    def ask(question: str, folders: Mapping[str, Path], tables: Sequence[str], **values: object) -> list[Any]:
        queries = {}
        for name, folder in folders.items():
            values[f"base_{name}"] = bases[folder]
            events = [_NO_EVENT.format(name)]
            for table in tables:
                # A table may lie in several files, or in none.
                if files := sorted(map(str, folder.glob(f"{table}*.parquet"))):
                    values[f"{table}_{name}"] = files
                    events.append(f"SELECT {_EVENTS[table].format(name)} FROM read_parquet(${table}_{name})")
            queries[name] = " UNION ALL ".join(events)
        return database.execute(question.format(**queries), values).fetchall()

    with duckdb.connect() as database:
        first: dict[Path, list[Any]] = {}
        starts_ns: dict[Path, set[int]] = {}
        for part, wholes in candidates.items():
            first[part] = ask(_FIRST_EVENT, {"part": part}, ("host_slices", "gpu_ops"))
            for start_ns, _ in first[part]:
                for whole in wholes:
                    starts_ns.setdefault(whole, set()).add(start_ns)
        held: dict[Path, set[tuple[object, ...]]] = {}
        for whole, starts in starts_ns.items():
            held[whole] = set(ask(_HELD, {"whole": whole}, ("host_slices", "gpu_ops"), starts_ns=sorted(starts)))

        def has_all(whole: Path, part: Path) -> bool:
            if not first[part] or first[part][0] not in held.get(whole, ()):
                return False
            return not ask(_LACKED, {"part": part, "whole": whole}, ("host_slices", "gpu_ops", "threads"))

        return [
            next((place for place, whole in enumerate(wholes) if has_all(whole, part)), None)
            for part, wholes in candidates.items()
        ]


def _without_others(
    traces: Sequence[StoredTrace], recorded: Mapping[Path, _Recorded], wholes: Mapping[Path, StoredTrace]
) -> Contents:
    """Tell captures of graphs from the traces, and set aside what is no rank of the run: these, copies of a trace or a
    part of it, and traces of a device's work that is not read. Raises TraceAnalyzerError where nothing else is there.
    """
    kept: list[StoredTrace] = []
    captures: list[StoredTrace] = []
    set_aside: list[TraceAnalyzerError] = []
    first: dict[str, StoredTrace] = {}
    has_work = any(recorded[trace.folder].role != _CAPTURE for trace in traces)
    for trace in traces:
        known = recorded[trace.folder]
        twin = first.setdefault(known.content or str(trace.folder), trace)
        if known.role.startswith(_UNREAD):
            what, hint = known.role.removeprefix(_UNREAD).split("\n", 1)
            set_aside.append(TraceAnalyzerError(what, str(trace.path), hint))
        elif known.role == _CAPTURE and has_work and twin is trace:
            captures.append(trace)
            what = "holds launches that were recorded into graphs, not work of the run"
            hint = "where the run replays its graphs, its operators count for them; give it alone to look at it"
            set_aside.append(TraceAnalyzerError(what, str(trace.path), hint))
        elif twin is not trace and (trace.rank is None or trace.rank == twin.rank):
            set_aside.append(TraceAnalyzerError(f"holds the same as {twin.trace}, which counts once", str(trace.path)))
        elif (whole := wholes.get(trace.folder)) is not None:
            set_aside.append(
                TraceAnalyzerError(f"holds only events of {whole.trace}, which counts once", str(trace.path))
            )
        else:
            kept.append(trace)
    if set_aside and not kept:
        raise set_aside[0]
    return Contents(kept, set_aside, captures)


class _Recorded(NamedTuple):
    """What the file of a trace's table `traces` says."""

    rank: int | None
    rank_source: str | None
    world_size: int | None
    host: str | None
    first_ns: int | None
    last_ns: int | None
    base_ns: int | None
    event_count: int
    content: str
    role: str


def _recorded(opened_store: Store, parts: Sequence[Path]) -> dict[Path, _Recorded]:
    """Return what each trace was recorded with; read once, as Arrow takes longer to start than all else."""
    question = "\n".join(["ranks, their sources, times, events and contents", *map(str, parts)])
    kept = opened_store.answers.get(question)
    if kept is None:
        kept = json.dumps([_read_recorded(part / "traces.parquet") for part in parts]).encode()
        opened_store.answers.keep(question, kept)
    return {part: _Recorded(*known) for part, known in zip(parts, json.loads(kept), strict=True)}


def _read_recorded(file: Path) -> _Recorded:
    import pyarrow.parquet as pq

    from traceanalyzer.ingest.sink import marks_in

    # Not read_table: it imports pyarrow.dataset, a quarter of a second.
    with pq.ParquetFile(file) as traces:
        row = traces.read(columns=list(_Recorded._fields[:-2])).to_pylist()[0]
        content, role = marks_in(traces.metadata.metadata)
        return _Recorded(**row, content=content, role=role)


@dataclass(frozen=True)
class _StoredFile:
    """One file of a run, also one in an archive: its name in the run, and the folders of its traces."""

    name: str
    path: Path | RemoteObject
    parts: tuple[Path, ...]


def _stored_files(found: RunSources, source: Path | RemoteObject, folder: Path) -> list[_StoredFile]:
    folders = (part for part in folder.iterdir() if (part / "traces.parquet").is_file())
    parts = sorted(folders, key=lambda part: natural_key(part.name))
    members = member_names(folder)
    if not members:
        return [_StoredFile(found.name(source), source, tuple(parts))]
    prefix = f"{found.name(source)}/" if len(found.sources) > 1 else ""
    by_member: dict[str, list[Path]] = {}
    for part in parts:
        by_member.setdefault(members[part.name], []).append(part)
    return [_StoredFile(prefix + name, _member(source, name), tuple(owned)) for name, owned in by_member.items()]


def _member(archive: Path | RemoteObject, name: str) -> Path | RemoteObject:
    """Return what a trace in an archive is called: no file is there."""
    return archive / name if isinstance(archive, Path) else replace(archive, url=f"{archive.url}/{name}")
