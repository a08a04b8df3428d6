"""JSON traces: PyTorch profiler (Kineto) of every year, and the trace-event format in general."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.ingest import IngestOptions, Source
from traceanalyzer.ingest.trace_events.stream import BYTE_ORDER_MARK, CHUNK_BYTES, SPARE_PARSERS

if TYPE_CHECKING:
    import duckdb

_LOOKS_LIKE_EVENTS = re.compile(rb'"(?:traceEvents|ph|schemaVersion)"\s*:')
# Chunks that are parsed at the same time lie in memory; spilling them would cost a fifth of the time.
_CHUNK_LIMIT_MB = 128
# Sorting needs a buffer for each run of rows that it put on disk: a little more for each further million of events.
_ASSEMBLY_LIMIT_MB = 192
_EVENTS_PER_MB = 600_000
# A database with macros takes as long to open as hundreds of events to read: a thread keeps that of a small file, which
# left nothing on the disk, for its next file.
_SMALL_EVENTS = 100_000
_kept = threading.local()


class TraceEventIngester:
    """Reads PyTorch profiler and Chrome trace-event JSON."""

    name = "json"

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether the text begins a JSON object or array that mentions events."""
        text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
        if not text.startswith((b"{", b"[")):
            return False
        return _LOOKS_LIKE_EVENTS.search(text) is not None or text.strip() in (b"[]", b"[")

    def ingest(self, path: Source, folder: Path, options: IngestOptions) -> None:
        """Read the file's trace into `folder`/0, or those of ranks that were merged into it into `folder`/rank0 …"""
        from traceanalyzer.ingest.sink import TraceSink
        from traceanalyzer.ingest.trace_events.assemble import Assembler
        from traceanalyzer.ingest.trace_events.losses import Losses
        from traceanalyzer.ingest.trace_events.reader import EventReader
        from traceanalyzer.ingest.trace_events.splitting import split_by_rank

        losses = Losses()
        jobs = max(1, options.jobs)
        stage = Path(tempfile.mkdtemp(prefix="stage-", dir=folder))
        database = _database(stage, jobs)
        is_kept = False
        try:
            args_path = folder / "0" / "event_args.parquet"
            args_path.parent.mkdir(parents=True, exist_ok=True)
            parts = EventReader(path, database, stage, args_path, options, losses, self._chunk_bytes).read()
            database.execute(f"SET threads = {jobs}")
            database.execute(f"SET memory_limit = '{_ASSEMBLY_LIMIT_MB + parts.event_count // _EVENTS_PER_MB}MB'")
            for own in split_by_rank(database, stage, folder, parts, losses):
                with TraceSink(folder / own.name) as sink:
                    Assembler(database, own.stage, sink, own.parts, own.losses, own.recorder).assemble(path)
            is_kept = parts.event_count <= _SMALL_EVENTS and not (stage / "spill").exists()
        finally:
            if is_kept:
                _kept.database = database
            else:
                database.close()
            shutil.rmtree(stage, ignore_errors=True)


def ingest_together(files: Sequence[tuple[Path, Path]], scratch: Path, options: IngestOptions) -> list[bool]:
    """Write the traces of small files into `0` of their folders, in one pass; return of which files.

    The others hold something unusual, and have to be read one by one.
    """
    import duckdb

    from traceanalyzer.ingest.native import reader_in_use
    from traceanalyzer.ingest.trace_events import together

    if reader_in_use() != "native":
        return [False] * len(files)
    stage = Path(tempfile.mkdtemp(prefix="stage-", dir=scratch))
    database = _database(stage, 1)
    is_kept = False
    try:
        done = together.ingest_together(database, stage, files, options)
        is_kept = not (stage / "spill").exists()
        return done
    except duckdb.Error:  # one by one, memory suffices, or the file says why not
        return [False] * len(files)
    finally:
        if is_kept:
            _kept.database = database
        else:
            database.close()
        shutil.rmtree(stage, ignore_errors=True)


def _database(stage: Path, jobs: int) -> duckdb.DuckDBPyConnection:
    """Return a database with the macros, set up to read chunks of a file."""
    import duckdb

    from traceanalyzer.ingest.sink import define_calls
    from traceanalyzer.ingest.trace_events.chunks import sql

    database: duckdb.DuckDBPyConnection | None = _kept.__dict__.pop("database", None)
    if database is None:
        database = duckdb.connect()
        database.execute(sql("categories"))
        define_calls(database)
        database.execute(sql("macros"))
    for name, value in _configuration(stage, jobs).items():
        database.execute(f"SET {name} = $value", {"value": value})
    return database


def _configuration(stage: Path, jobs: int) -> dict[str, str | bool | int]:
    # While chunks are read, each on a thread of ours, DuckDB's own threads would only be in the way.
    limit_mb = _CHUNK_LIMIT_MB * (jobs + SPARE_PARSERS)
    return {
        "threads": 1,
        "memory_limit": f"{limit_mb}MB",
        "temp_directory": str(stage / "spill"),
        "preserve_insertion_order": True,
        # The rows of many files are guessed from the first, and the guess would hold all events in memory instead of
        # the other side: every join here is written with its small side last.
        # Pulling projections up takes 3 ms of each chunk's planning and gains nothing here.
        "disabled_optimizers": "join_order,build_side_probe_side,projection_pullup",
    }
