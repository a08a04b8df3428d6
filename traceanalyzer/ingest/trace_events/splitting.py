"""The parts of a file that several ranks were merged into, as the parts of each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from traceanalyzer.ingest.trace_events.chunks import sql
from traceanalyzer.ingest.trace_events.facts import whole_number
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.merged_ranks import (
    DeviceProcess,
    Merged,
    Process,
    SeveralRanksError,
    find_ranks,
)
from traceanalyzer.ingest.trace_events.reader import Parts
from traceanalyzer.ingest.trace_events.stream import TraceDocument

_PARTS = ("host", "gpu_events", "other")
_OPTIONS = "FORMAT parquet, COMPRESSION lz4, PARQUET_VERSION V2"
_ARGS_OPTIONS = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1"
_MEMBER_FIELDS: dict[str, pa.DataType] = {
    "pid": pa.string(),
    "own_pid": pa.string(),
    "rank_place": pa.int32(),
    "first_id": pa.int64(),
    "last_id": pa.int64(),
}
_MEMBERS = pa.schema(_MEMBER_FIELDS)


@dataclass(frozen=True)
class TraceParts:
    """What one trace is assembled from, and the name of its folder."""

    name: str
    stage: Path
    parts: Parts
    losses: Losses


def split_by_rank(
    database: duckdb.DuckDBPyConnection, stage: Path, folder: Path, parts: Parts, losses: Losses
) -> list[TraceParts]:
    """Return the parts of each trace of a file: one, or one a rank where several were merged.

    The parts lie in `stage`, the arguments of events in `folder`/0; those of several ranks are written anew, chunk by
    chunk, and the ones before are removed.
    """
    try:
        merged = _find_ranks(database, stage, parts.document)
    except SeveralRanksError as error:
        losses.add("several-processes", None, str(error))
        merged = None
    if merged is None:
        return [TraceParts("0", stage, parts, losses)]
    losses.add("merged-ranks", None, merged.reason, len(merged.ranks))
    splitter = _Splitter(database, stage, folder, merged)
    counts = splitter.split()
    return [
        TraceParts(
            f"rank{rank}", splitter.stages[place], _parts_of(parts, merged.ranks, place, counts[place]), losses.copy()
        )
        for place, rank in enumerate(merged.ranks)
    ]


def _find_ranks(database: duckdb.DuckDBPyConnection, stage: Path, document: TraceDocument) -> Merged | None:
    files: dict[str, object] = {part: _files(stage, part) for part in _PARTS}
    rows = database.execute(sql("processes"), files).fetchall()
    processes = [
        Process(pid, first, calls, operators, ops, None if begin is None else (begin, end), tuple(names))
        for pid, first, calls, operators, ops, begin, end, names in rows
    ]

    def devices() -> Mapping[str | None, DeviceProcess]:
        found = database.execute(sql("process_devices"), {"gpu_events": files["gpu_events"]}).fetchall()
        return {
            pid: DeviceProcess(device if device == last_device else None, begin, end)
            for pid, device, last_device, begin, end in found
        }

    def launches() -> Mapping[str | None, Mapping[str | None, int]]:
        parts = {part: files[part] for part in ("host", "gpu_events")}
        counts: dict[str | None, dict[str | None, int]] = {}
        for device, host, count in database.execute(sql("process_launches"), parts).fetchall():
            counts.setdefault(device, {})[host] = count
        return counts

    return find_ranks(processes, devices, launches, _rank_in(document))


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
        self.stages = [stage / f"rank{rank}" for rank in merged.ranks]
        self._folders = [folder / f"rank{rank}" for rank in merged.ranks]

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
            files = {part: path for part in _PARTS if (path := self._stage / f"{part}-{chunk}.parquet").is_file()}
            args = self._args / f"event_args-{chunk}.parquet"
            self._split_chunk(files, args, counts, whole=number == 0)
            for path in (*files.values(), args):
                path.unlink()
        self._database.unregister("rank_members")
        self._args.rmdir()
        return counts

    def _split_chunk(self, files: Mapping[str, Path], args: Path, counts: list[int], *, whole: bool) -> None:
        """Write one chunk of each rank that has events in it; `whole`: of all ranks, as their columns must be there."""
        rows = " UNION ".join(f"SELECT event_id, pid FROM read_parquet('{_quoted(path)}')" for path in files.values())
        self._database.execute(
            f"CREATE OR REPLACE TEMP TABLE owners AS SELECT event_id, rank_place FROM ({rows}) AS rows "
            f"JOIN rank_members AS members ON {_IS_MEMBER}"
        )
        found = dict(self._database.execute("SELECT rank_place, count(*) FROM owners GROUP BY rank_place").fetchall())
        for place, stage in enumerate(self.stages):
            counts[place] += found.get(place, 0)
            if not (whole or place in found):
                continue
            for path in files.values():
                query = (
                    f"SELECT rows.* REPLACE (members.own_pid AS pid) FROM read_parquet('{_quoted(path)}') AS rows "
                    f"JOIN rank_members AS members ON {_IS_MEMBER} WHERE rank_place = {place} ORDER BY event_id"
                )
                self._copy(query, stage / path.name, _OPTIONS)
            query = (
                f"SELECT rows.* FROM read_parquet('{_quoted(args)}') AS rows SEMI JOIN "
                f"(FROM owners WHERE rank_place = {place}) AS own USING (event_id) ORDER BY event_id"
            )
            self._copy(query, self._folders[place] / args.name, _ARGS_OPTIONS)

    def _copy(self, query: str, path: Path, options: str) -> None:
        self._database.execute(f"COPY ({query}) TO '{_quoted(path)}' ({options})")


_IS_MEMBER = "members.pid IS NOT DISTINCT FROM rows.pid AND rows.event_id BETWEEN members.first_id AND members.last_id"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _files(stage: Path, part: str) -> list[str]:
    return sorted(str(path) for path in stage.glob(f"{part}-*.parquet"))


def _parts_of(parts: Parts, ranks: Sequence[int], place: int, event_count: int) -> Parts:
    """Return what the file says of one of its ranks: its header is that of the first one."""
    rank = ranks[place]
    metadata: dict[str, Any] = dict(parts.document.metadata)
    info = metadata.get("distributedInfo")
    if isinstance(info, dict):
        size = whole_number(info.get("world_size"))
        own = {**info, "rank": rank}
        if size is not None and max(ranks) >= size:
            own["world_size"] = None  # of the first one's own job, such as its share of a service
        groups = info.get("pg_config")
        if place and isinstance(groups, list):  # other ranks are in other groups, of which only the world is known
            own["pg_config"] = [
                group for group in groups if isinstance(group, dict) and whole_number(group.get("pg_size")) == size
            ]
        metadata["distributedInfo"] = own
    document = replace(parts.document, metadata=metadata)
    return replace(parts, document=document, event_count=event_count, rank=rank)
