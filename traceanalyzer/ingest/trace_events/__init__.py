"""JSON traces: PyTorch profiler (Kineto) of every year, and the trace-event format in general."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import duckdb

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.trace_events.assemble import Assembler
from traceanalyzer.ingest.trace_events.chunks import sql
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.reader import CHUNK_BYTES, EventReader
from traceanalyzer.ingest.trace_events.stream import BYTE_ORDER_MARK

_LOOKS_LIKE_EVENTS = re.compile(rb'"(?:traceEvents|ph)"\s*:')
_MEMORY_LIMIT = "256MB"


class TraceEventIngester:
    """Reads PyTorch profiler and Chrome trace-event JSON."""

    name = "json"

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes

    def sniff(self, head: bytes, path: Path) -> bool:
        """Tell whether the text begins a JSON object or array that mentions events."""
        text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
        if not text.startswith((b"{", b"[")):
            return False
        return (
            _LOOKS_LIKE_EVENTS.search(text) is not None or b'"schemaVersion"' in text or text.strip() in (b"[]", b"[")
        )

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> list[str]:
        """Read the file's one trace into `folder`/0."""
        losses = Losses()
        stage = Path(tempfile.mkdtemp(prefix="stage-", dir=folder))
        try:
            with duckdb.connect(config=_configuration(stage)) as database:
                database.execute(sql("categories"))
                database.execute(sql("macros"))
                with TraceSink(folder / "0") as sink:
                    reader = EventReader(
                        path, database, stage, sink.path("event_args"), options, losses, self._chunk_bytes
                    )
                    parts = reader.read()
                    database.execute(f"SET threads = {max(1, options.jobs)}")
                    Assembler(database, stage, sink, parts, losses).assemble(path)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return ["0"]


def _configuration(stage: Path) -> dict[str, str | bool | int | float | list[str]]:
    # While chunks are read, each on a thread of ours, DuckDB's own threads would only be in the way.
    return {"threads": 1, "memory_limit": _MEMORY_LIMIT, "temp_directory": str(stage / "spill")}
