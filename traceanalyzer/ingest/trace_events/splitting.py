"""The parts of a file that several ranks were merged into, as the parts of each rank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.ingest.trace_events.chunks import PART_OPTIONS, PARTS, sql, typed_part
from traceanalyzer.ingest.trace_events.devices import whole_number
from traceanalyzer.ingest.trace_events.facts import ROCPROF1, Recorder, find_recorder
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.merged_ranks import (
    DeviceProcess,
    Merged,
    Process,
    SeveralRanksError,
    by_arrows,
    find_ranks,
    processes_apart,
)
from traceanalyzer.ingest.trace_events.reader import Parts
from traceanalyzer.ingest.trace_events.stream import TraceDocument

_IS_NAME = {"host": "FALSE", "gpu_events": "FALSE", "other": "phase = 'M'"}
_ARGS_OPTIONS = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1"
_MEMBER_FIELDS: dict[str, pa.DataType] = {
    "pid": pa.string(),
    "own_pid": pa.string(),
    "rank_place": pa.int32(),
    "first_id": pa.int64(),
    "last_id": pa.int64(),
}
_MEMBERS = pa.schema(_MEMBER_FIELDS)
# The rank before the name of an event, and of each process whose events all have the same one.
_LABEL = r"^\[(?i:rank|r)[ _:#=-]*\d{1,9}\] "
_LABELS = """
CREATE OR REPLACE TABLE rank_labels AS
SELECT pid, min(label) AS label
FROM (
    SELECT pid, regexp_extract(name, $label) AS label
    FROM (
        SELECT pid, name FROM read_parquet($host)
        UNION ALL SELECT pid, name FROM read_parquet($gpu_events)
        UNION ALL SELECT pid, name FROM read_parquet($other)
    )
)
WHERE label <> ''
GROUP BY pid
HAVING min(label) = max(label)
"""
_MOVED = f"""
COPY (
    SELECT rows.* REPLACE (
        regexp_replace(name, $label, '') AS name,
        coalesce(nullif(regexp_extract(name, $label), ''), rank_labels.label, '') || rows.pid AS pid
    )
    FROM read_parquet('{{path}}') AS rows
    LEFT JOIN rank_labels USING (pid)
    ORDER BY event_id
) TO '{{target}}' ({PART_OPTIONS})
"""


class TraceParts(Struct, frozen=True):
    """What one trace is assembled from, and the name of its folder; recorder: which of `facts` wrote it, or None."""

    name: str
    stage: Path
    parts: Parts
    losses: Losses
    recorder: Recorder | None


def split_by_rank(
    database: duckdb.DuckDBPyConnection, stage: Path, folder: Path, parts: Parts, losses: Losses
) -> list[TraceParts]:
    """Return the parts of each trace of a file: one, or one a rank where several were merged.

    Where the names of events begin with the rank, it is moved to their processes. The parts lie in `stage`, the
    arguments of events in `folder`/0; those of several ranks are written anew, chunk by chunk, and the ones before are
    removed.
    """
    _move_labels(database, stage)
    recorder = find_recorder(database, partial(_files, stage))
    try:
        args = [str(path) for path in sorted((folder / "0").glob("event_args-*.parquet"))]
        merged = _find_ranks(database, stage, parts.document, args, recorder)
    except SeveralRanksError as error:
        losses.add("several-processes", None, str(error))
        merged = None
    if merged is None:
        return [TraceParts("0", stage, parts, losses, recorder)]
    if not merged.names:
        losses.add("merged-ranks", None, merged.reason, len(merged.ranks))
    splitter = _Splitter(database, stage, folder, merged)
    counts = splitter.split()
    return [
        TraceParts(
            name,
            own := splitter.stages[place],
            _parts_of(parts, merged.ranks, place, counts[place]),
            losses.copy(),
            find_recorder(database, partial(_files, own)),
        )
        for place, name in enumerate(splitter.names)
    ]


def is_labelled(names: Sequence[str | None]) -> bool:
    """Return whether names of events begin with the rank: [R0] cudaLaunchKernel."""
    return bool(names) and all(name is not None and re.match(_LABEL, name) for name in names)


def _move_labels(database: duckdb.DuckDBPyConnection, stage: Path) -> None:
    """Take the rank from the names of events to the numbers of their processes, as other mergers write it."""
    files = {part: _files(stage, part) for part in PARTS}
    first_names = [
        name
        for part in ("host", "gpu_events")
        for (name,) in database.execute(
            "SELECT name FROM read_parquet($files) LIMIT 100", {"files": files[part]}
        ).fetchall()
    ]
    if not is_labelled(first_names):
        return
    database.execute(_LABELS, {part: files[part] for part in PARTS} | {"label": _LABEL})
    for path in map(Path, (path for part in PARTS for path in files[part])):
        target = path.with_name(f"new-{path.name}")
        database.execute(_MOVED.format(path=_quoted(path), target=_quoted(target)), {"label": _LABEL})
        target.replace(path)
        if path.name.startswith("gpu_events-"):
            typed_part(path).unlink(missing_ok=True)  # it has the labels still
    database.execute("DROP TABLE rank_labels")


def processes_in(database: duckdb.DuckDBPyConnection, files: Mapping[str, object]) -> list[Process]:
    """Return the processes of the events in parts, in the order of their first event."""
    return [
        Process(pid, first, calls, operators, ops, None if begin is None else (begin, end), tuple(names), repeated)
        for pid, first, calls, operators, ops, begin, end, repeated, names in database.execute(
            sql("processes"), dict(files)
        ).fetchall()
    ]


def _find_ranks(
    database: duckdb.DuckDBPyConnection,
    stage: Path,
    document: TraceDocument,
    args: list[str],
    recorder: Recorder | None,
) -> Merged | None:
    files: dict[str, object] = {part: _files(stage, part) for part in PARTS}
    processes = processes_in(database, files)

    def devices() -> Mapping[str | None, DeviceProcess]:
        found = database.execute(sql("process_devices"), {"gpu_events": files["gpu_events"]}).fetchall()
        return {
            pid: DeviceProcess(device if device == last_device else None, begin, end)
            for pid, device, last_device, begin, end in found
        }

    def launches(later: bool) -> Mapping[str | None, Mapping[str | None, int]]:
        parts = {part: files[part] for part in ("host", "gpu_events")}
        counts: dict[str | None, dict[str | None, int]] = {}
        for device, host, count, later_count in database.execute(sql("process_launches"), parts).fetchall():
            counts.setdefault(device, {})[host] = later_count if later else count
        return counts

    if recorder is ROCPROF1:
        pids = [pid for (pid,) in database.execute(_REAL_PROCESSES, {"args": args}).fetchall()]
        apart = processes_apart({pid: pid for pid in pids}, [])
        return None if apart is None else replace(apart, by_arguments=True)
    found = find_ranks(processes, devices, launches, _rank_in(document))
    if found is None and recorder is not None and recorder.device_process:
        shown = [
            process.pid
            for process in processes
            if any(re.search(recorder.device_process, name or "") for name in process.names)
        ]
        counts = database.execute(_ARROWS, {"other": files["other"], "arrow": recorder.arrow}).fetchall()
        drawn: dict[str | None, dict[str | None, int]] = {}
        for device, host, count in counts:
            drawn.setdefault(device, {})[host] = count
        found = by_arrows(processes, shown, drawn)
    return found


def _rank_in(document: TraceDocument) -> int | None:
    info = document.metadata.get("distributedInfo")
    rank = whole_number(info.get("rank")) if isinstance(info, dict) else None
    return rank if rank is not None and 0 <= rank < 2**31 else None


class _Splitter:
    """Writes the parts of each rank."""

    def __init__(self, database: duckdb.DuckDBPyConnection, stage: Path, folder: Path, merged: Merged) -> None:
        self._database = database
        self._stage = stage
        self._args = folder / "0"
        self._merged = merged
        self.names = merged.names or tuple(f"rank{rank}" for rank in merged.ranks)
        self.stages = [stage / name for name in self.names]
        self._folders = [folder / name for name in self.names]

    def split(self) -> list[int]:
        """Split every chunk, and return how many events each rank has."""
        for path in (*self.stages, *self._folders):
            path.mkdir()
        members = [
            dict(zip(_MEMBERS.names, (m.pid, m.own_pid, m.group, m.first_id, m.last_id), strict=True))
            for m in self._merged.members
        ]
        self._database.register("rank_members", pa.Table.from_pylist(members, _MEMBERS))
        counts = [0] * len(self.stages)
        chunks = sorted(path.stem.removeprefix("host-") for path in self._stage.glob("host-*.parquet"))
        for number, chunk in enumerate(chunks):
            files = {part: path for part in PARTS if (path := self._stage / f"{part}-{chunk}.parquet").is_file()}
            args = self._args / f"event_args-{chunk}.parquet"
            self._split_chunk(files, args, counts, whole=number == 0)
            for path in (*files.values(), args):
                path.unlink()
        self._database.unregister("rank_members")
        self._args.rmdir()
        return counts

    def _split_chunk(self, files: Mapping[str, Path], args: Path, counts: list[int], *, whole: bool) -> None:
        """Write one chunk of each rank that has events in it; `whole`: of all ranks, as their columns must be there."""
        rows = " UNION ".join(
            f"SELECT event_id, pid, {_IS_NAME[part]} AS is_name FROM read_parquet('{_quoted(path)}')"
            for part, path in files.items()
        )
        owner = "args.args ->> '$.pid'" if self._merged.by_arguments else "rows.pid"
        owners = _OWNERS_APART if self._merged.names else _OWNERS
        self._database.execute(owners.format(rows=rows, args=_quoted(args), owner=owner))
        found = dict(self._database.execute("SELECT rank_place, count(*) FROM owners GROUP BY rank_place").fetchall())
        for place, stage in enumerate(self.stages):
            counts[place] += found.get(place, 0)
            if not (whole or place in found):
                continue
            for path in files.values():
                query = (
                    f"SELECT rows.* REPLACE (owners.own_pid AS pid) FROM read_parquet('{_quoted(path)}') AS rows "
                    f"JOIN owners USING (event_id) WHERE rank_place = {place} ORDER BY event_id"
                )
                self._copy(query, stage / path.name, PART_OPTIONS)
            query = (
                f"SELECT rows.* FROM read_parquet('{_quoted(args)}') AS rows SEMI JOIN "
                f"(FROM owners WHERE rank_place = {place}) AS own USING (event_id) ORDER BY event_id"
            )
            self._copy(query, self._folders[place] / args.name, _ARGS_OPTIONS)

    def _copy(self, query: str, path: Path, options: str) -> None:
        self._database.execute(f"COPY ({query}) TO '{_quoted(path)}' ({options})")


_OWNERS = """
CREATE OR REPLACE TEMP TABLE owners AS
SELECT rows.event_id, members.rank_place, members.own_pid
FROM ({rows}) AS rows
JOIN rank_members AS members
    ON members.pid IS NOT DISTINCT FROM rows.pid AND rows.event_id BETWEEN members.first_id AND members.last_id
"""
# Names are every process's, and so are arrows where the arguments of events tell whose they are.
_OWNERS_APART = """
CREATE OR REPLACE TEMP TABLE owners AS
WITH owned AS (
    SELECT rows.event_id, rows.pid, CASE WHEN NOT is_name THEN {owner} END AS owner
    FROM ({rows}) AS rows
    LEFT JOIN read_parquet('{args}') AS args USING (event_id)
)
SELECT event_id, members.rank_place, owned.pid AS own_pid
FROM owned
JOIN rank_members AS members ON members.pid = owner
UNION ALL
SELECT event_id, places.rank_place, owned.pid
FROM owned
CROSS JOIN (SELECT DISTINCT rank_place FROM rank_members) AS places
WHERE owner IS NULL
"""
_REAL_PROCESSES = """
SELECT args ->> '$.pid' AS pid
FROM read_parquet($args)
WHERE contains(args, '"BeginNs"') AND args ->> '$.pid' IS NOT NULL
GROUP BY pid
ORDER BY min(event_id)
"""
_ARROWS = """
WITH marks AS (
    SELECT
        phase = 's' AS begins,
        pid,
        struct_pack(id := coalesce(id, id2 ->> '$.local', id2 ->> '$.global'), category := raw_category) AS flow
    FROM read_parquet($other)
    WHERE phase IN ('s', 't', 'f') AND starts_with(coalesce(raw_category, ''), $arrow)
)
SELECT ends.pid, marks.pid, count(*)
FROM marks AS ends
JOIN marks ON marks.flow = ends.flow AND marks.begins AND NOT ends.begins
GROUP BY ends.pid, marks.pid
"""


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _files(stage: Path, part: str) -> list[str]:
    return sorted(str(path) for path in stage.glob(f"{part}-*.parquet"))


def _parts_of(parts: Parts, ranks: Sequence[int | None], place: int, event_count: int) -> Parts:
    """Return what the file says of one of its ranks: its header is that of the first one."""
    rank = ranks[place]
    if rank is None:
        return replace(parts, event_count=event_count)
    metadata: dict[str, Any] = dict(parts.document.metadata)
    info = metadata.get("distributedInfo")
    if isinstance(info, dict):
        size = whole_number(info.get("world_size"))
        own = {**info, "rank": rank}
        if size is not None and max(known for known in ranks if known is not None) >= size:
            own["world_size"] = None  # of the first one's own job, such as its share of a service
        groups = info.get("pg_config")
        if place and isinstance(groups, list):  # other ranks are in other groups, of which only the world is known
            own["pg_config"] = [
                group for group in groups if isinstance(group, dict) and whole_number(group.get("pg_size")) == size
            ]
        metadata["distributedInfo"] = own
    document = replace(parts.document, metadata=metadata)
    return replace(parts, document=document, event_count=event_count, rank=rank)
