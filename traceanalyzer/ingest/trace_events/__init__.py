"""JSON traces: PyTorch profiler (Kineto) of every year, and the trace-event format in general."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from traceanalyzer.ingest import IngestOptions, Source
from traceanalyzer.ingest.trace_events.stream import BYTE_ORDER_MARK, CHUNK_BYTES, SPARE_PARSERS

_LOOKS_LIKE_EVENTS = re.compile(rb'"(?:traceEvents|ph|schemaVersion)"\s*:')
# Chunks that are parsed at the same time lie in memory; spilling them would cost a fifth of the time.
_CHUNK_LIMIT_MB = 128
# Sorting needs a buffer for each run of rows that it put on disk: a little more for each further million of events.
_ASSEMBLY_LIMIT_MB = 192
_EVENTS_PER_MB = 600_000


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
        import duckdb

        from traceanalyzer.ingest.sink import TraceSink
        from traceanalyzer.ingest.trace_events.assemble import Assembler
        from traceanalyzer.ingest.trace_events.chunks import sql
        from traceanalyzer.ingest.trace_events.losses import Losses
        from traceanalyzer.ingest.trace_events.reader import EventReader
        from traceanalyzer.ingest.trace_events.splitting import split_by_rank

        losses = Losses()
        jobs = max(1, options.jobs)
        stage = Path(tempfile.mkdtemp(prefix="stage-", dir=folder))
        try:
            with duckdb.connect(config=_configuration(stage, jobs)) as database:
                database.execute(sql("categories"))
                database.execute(sql("macros"))
                args_path = folder / "0" / "event_args.parquet"
                args_path.parent.mkdir(parents=True, exist_ok=True)
                parts = EventReader(path, database, stage, args_path, options, losses, self._chunk_bytes).read()
                database.execute(f"SET threads = {jobs}")
                database.execute(f"SET memory_limit = '{_ASSEMBLY_LIMIT_MB + parts.event_count // _EVENTS_PER_MB}MB'")
                for own in split_by_rank(database, stage, folder, parts, losses):
                    with TraceSink(folder / own.name) as sink:
                        Assembler(database, own.stage, sink, own.parts, own.losses).assemble(path)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _configuration(stage: Path, jobs: int) -> dict[str, str | bool | int | float | list[str]]:
    # While chunks are read, each on a thread of ours, DuckDB's own threads would only be in the way.
    limit_mb = _CHUNK_LIMIT_MB * (jobs + SPARE_PARSERS)
    return {
        "threads": 1,
        "memory_limit": f"{limit_mb}MB",
        "temp_directory": str(stage / "spill"),
        # The rows of many files are guessed from the first, and the guess would hold all events in memory instead of
        # the other side: every join here is written with its small side last.
        # Pulling projections up takes 3 ms of each chunk's planning and gains nothing here.
        "disabled_optimizers": "join_order,build_side_probe_side,projection_pullup",
    }
