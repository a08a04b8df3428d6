"""The tables of Nsight Compute that were read with a run: which there are, and what they are called."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.discovery import RunSources, natural_key
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed import member_names
from traceanalyzer.remote.location import Location
from traceanalyzer.store.stored_trace import NcuTable

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject


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
