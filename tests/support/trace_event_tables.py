"""Tables of small JSON traces written by a test, read with a chosen chunk size."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.schema import trace_tables


@dataclass(frozen=True)
class Tables:
    """The canonical tables of one trace as lists of rows."""

    rows: dict[str, list[dict[str, Any]]]

    def __getitem__(self, table: str) -> list[dict[str, Any]]:
        return self.rows[table]

    def names(self, table: str = "host_slices") -> list[str | None]:
        return [row["name"] for row in self.rows[table]]

    @property
    def defects(self) -> dict[str, int]:
        return {row["defect"]: row["defect_count"] for row in self.rows["defects"]}

    def offset(self, defect: str) -> int | None:
        found: int | None = next(row["first_offset"] for row in self.rows["defects"] if row["defect"] == defect)
        return found


def read(content: bytes | str, *, chunk_bytes: int = 2**20, jobs: int = 1, name: str = "trace.json") -> Tables:
    """Ingest a file of this content; every table comes back in the order of its first columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        out = Path(folder) / "out"
        out.mkdir()
        TraceEventIngester(chunk_bytes).ingest(path, out, IngestOptions(jobs=jobs))
        tables: dict[str, list[dict[str, Any]]] = {}
        with duckdb.connect() as connection:
            for table in trace_tables():
                files = [str(file) for file in sorted((out / "0").glob(f"{table}*.parquet"))]
                if not files:
                    tables[table] = []
                    continue
                relation = connection.sql("FROM read_parquet($files) ORDER BY ALL", params={"files": files})
                names = relation.columns
                tables[table] = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
        for row in tables["traces"]:
            row["path"] = None
        return Tables(tables)


def events(*texts: str) -> str:
    """Return a Kineto document with these events as written."""
    return '{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(texts) + '\n], "traceName": "t.json"}'


def slice_text(name: str, ts: object = 10, dur: object = 5, **more: object) -> str:
    """Return a complete event on one thread as JSON text; values are written as they are."""
    fields = {"ph": '"X"', "cat": '"cpu_op"', "name": f'"{name}"', "pid": 1, "tid": 1, "ts": ts, "dur": dur} | more
    return "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"


def two_ranks(folder: Path) -> Path:
    """Write a run of two ranks with one kernel each, and return its folder."""
    folder.mkdir()
    kernel = slice_text("k", cat='"kernel"', args='{"device": 0, "stream": 7, "correlation": 1}')
    for rank in (0, 1):
        (folder / f"rank{rank}.json").write_text(events(kernel))
    return folder
