"""What the store holds of a run, in order: its traces with their ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.discovery import RunSources, natural_key, ranks_from_names
from traceanalyzer.ingest.packed import member_names
from traceanalyzer.store.store import Store
from traceanalyzer.store.stored_trace import StoredTrace

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject


def traces_of(
    keeper: Store, found: RunSources, folders: Sequence[tuple[Path | RemoteObject, Path]]
) -> list[StoredTrace]:
    """Return every trace of the run, by rank and then by name; `folders` are sources with their folders of traces."""
    files = [file for source, folder in folders for file in _stored_files(found, source, folder) if file.parts]
    by_name = ranks_from_names([file.name for file in files])
    recorded = _recorded_ranks(keeper, [part for file in files for part in file.parts])
    world_size = max((size for _, size in recorded.values() if size is not None), default=None)
    traces: list[StoredTrace] = []
    for file, name_rank in zip(files, by_name, strict=True):
        for part in file.parts:
            rank, told_by = recorded[part][0], "metadata"
            if rank is None and name_rank is not None and (world_size is None or name_rank < world_size):
                rank, told_by = name_rank, "name"
            name = file.name + (f"#{part.name.rpartition('.')[2]}" if len(file.parts) > 1 else "")
            traces.append(StoredTrace(part, name, file.path, rank, told_by if rank is not None else None))
    return sorted(traces, key=lambda t: (t.rank is None, t.rank or 0, natural_key(t.trace)))


def _recorded_ranks(keeper: Store, parts: Sequence[Path]) -> dict[Path, tuple[int | None, int | None]]:
    """Return the rank and world size that each trace was recorded with; read once, as Arrow takes long to start."""
    question = "\n".join(["ranks and world sizes", *map(str, parts)])
    kept = keeper.answers.get(question)
    if kept is None:
        import pyarrow.parquet as pq

        # Not read_table: it imports pyarrow.dataset, a quarter of a second.
        tables = (pq.ParquetFile(part / "traces.parquet").read(columns=["rank", "world_size"]) for part in parts)
        kept = json.dumps([[table.column(n)[0].as_py() for n in ("rank", "world_size")] for table in tables]).encode()
        keeper.answers.keep(question, kept)
    return {part: (rank, size) for part, (rank, size) in zip(parts, json.loads(kept), strict=True)}


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
