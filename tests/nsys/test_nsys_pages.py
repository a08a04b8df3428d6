"""Tables read from the pages of a database are those that SQLite reads, or are left to it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from both_readers import need_library

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.native import READER_VARIABLE
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.pages import page_batches, stored_table
from traceanalyzer.ingest.nsys.source import SqliteSource

METRICS = "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value REAL)"
DEFAULTS = METRICS.replace("metricId INTEGER", "metricId INTEGER DEFAULT 7").replace(
    "value REAL", "value REAL DEFAULT 1.5"
)
LATER = "ALTER TABLE GPU_METRICS ADD COLUMN value REAL DEFAULT 4.5"
ALL = "timestamp, typeId, metricId, value"
STRINGS = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
NVTX = "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER, text TEXT, binaryData BLOB)"
READ_BYTES = Path("/proc/self/io")
Table = tuple[list[dict[str, Any]], dict[str, int]]


@pytest.fixture(autouse=True)
def library() -> None:
    need_library()


def made(path: Path, create: str, rows: Iterable[tuple[Any, ...]], before: str = "", after: str = "") -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{before};{create}")
        name = create.split()[2]
        rows = list(rows)
        if rows:
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        database.commit()
        database.executescript(after)
    return path


def read(path: Path) -> dict[str, Table]:
    """Return the rows of each table, and the defects."""
    tables = {}
    with closing(SqliteSource(path)) as source:
        for layout in source.layouts.values():
            if layout.unreadable:
                continue
            columns, defects = [*layout.stored], Defects()
            batches = list(source.batches(layout, columns, defects))
            rows = [row for batch in batches for row in batch.to_pylist()]
            tables[layout.stored_name] = (rows, dict(defects.counts))
    return tables


def read_by_sqlite(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Table]:
    with monkeypatch.context() as patch:
        patch.setenv(READER_VARIABLE, "duckdb")
        return read(path)


def refusals(path: Path) -> list[str]:
    """Return the tables of which rows are left to SQLite."""
    left = []
    with closing(SqliteSource(path)) as source:
        for layout in source.layouts.values():
            columns = [*layout.stored]
            table = stored_table(source._connection, layout, columns)
            longest = layout.table.longest + 1
            if table is None or None in page_batches(path, table, columns, longest, 10**6, 1000):
                left.append(layout.stored_name)
    return left


def numbers() -> Iterator[tuple[Any, ...]]:
    edges = [
        0,
        1,
        -1,
        *(sign * 2**bits + near for bits in (7, 15, 23, 31, 47, 63) for sign in (1, -1) for near in (-1, 0)),
    ]
    inside = [edge for edge in edges if -(2**63) <= edge < 2**63]
    for at in range(40_000):
        yield at, inside[at % len(inside)], None if at % 3 else at, [1.5, 3.0, None, -0.0, 1e300][at % 5]


def texts() -> Iterator[tuple[Any, ...]]:
    for at in range(300):
        size = [0, 1, 60, 61, 62, 200, 480, 500, 3_000, 70_000][at % 10]
        yield at * 7, ("é" if at % 2 else "x") * size


def ranges() -> Iterator[tuple[Any, ...]]:
    for at in range(20_000):
        blob = bytes(at % 90) if at % 7 == 0 else None
        yield at, None if at % 11 == 0 else at + 5, 59, None if at % 5 == 0 else f"range {at}", blob


@pytest.mark.skipif(not READ_BYTES.exists(), reason="this system does not count what a process reads")
def test_a_block_is_read_once_for_each_level_of_the_tree(tmp_path: Path) -> None:
    path = made(tmp_path / "export.sqlite", METRICS, numbers(), "PRAGMA page_size = 512")
    with closing(SqliteSource(path)) as source:
        (layout,) = source.layouts.values()
        columns = [*layout.stored]
        table = stored_table(source._connection, layout, columns)
        assert table is not None
        before = read_bytes()
        batches = list(page_batches(path, table, columns, layout.table.longest + 1, 10**6, 10**6))
        assert read_bytes() - before < 3 * path.stat().st_size
    assert sum(batch.num_rows for batch in batches if batch is not None) == 40_000


def read_bytes() -> int:
    """Return how many bytes this process has read so far."""
    return int(READ_BYTES.read_text().split()[1])


@pytest.mark.sampled
@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize(
    ("create", "rows"), [(METRICS, numbers), (DEFAULTS, numbers), (STRINGS, texts), (NVTX, ranges)]
)
def test_pages_give_what_sqlite_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_size: int, create: str, rows: Any
) -> None:
    path = made(tmp_path / "export.sqlite", create, rows(), f"PRAGMA page_size = {page_size}")
    assert refusals(path) == []
    found = read(path)
    assert found == read_by_sqlite(path, monkeypatch)
    assert sum(len(rows) for rows, _ in found.values()) == len(list(rows()))


@pytest.mark.parametrize(
    ("create", "rows", "before", "after"),
    [
        (METRICS, [(1, 2, 3, 4.5)] * 20_000 + [(1, 2, 3, "much")], "", ""),
        (METRICS, [(1, 2, 3, 4.5)] * 20_000 + [("late", 2, 3, 4.5)], "", ""),
        (METRICS.replace("INTEGER", "REAL"), [(1, 2, 3, 4.5)], "", ""),
        (METRICS, [(1, 2, 3, 4.5)], "", "ALTER TABLE GPU_METRICS ADD COLUMN note TEXT"),
        (METRICS.replace(", value REAL", ""), [(1, 2, 3)] * 2_000, "", LATER),
        (METRICS, [(9, 2, 3, 4.5), (1, 2, 3, 4.5)], "", f"CREATE INDEX i ON GPU_METRICS ({ALL})"),
        (METRICS + " WITHOUT ROWID", [(9, 2, 3, 4.5), (1, 2, 3, 4.5)], "", ""),
        (STRINGS, [(1, "one"), (2, "two")], "PRAGMA encoding = 'UTF-16le'", ""),
        (STRINGS.replace("KEY", "KEY DESC"), [(1, "one"), (2, "two")], "", ""),
        (STRINGS.replace("TEXT", "ANY"), [(1, "one"), (2, 22)], "", ""),
    ],
)  # fmt: skip
def test_other_tables_are_left_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: str, rows: Any, before: str, after: str
) -> None:
    create = create.replace("timestamp INTEGER", "timestamp INTEGER PRIMARY KEY") if "WITHOUT" in create else create
    path = made(tmp_path / "export.sqlite", create, rows, before, after)
    assert len(refusals(path)) == 1
    assert read(path) == read_by_sqlite(path, monkeypatch)


@pytest.mark.check
def test_pages_of_damaged_files_give_what_sqlite_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made(tmp_path / "whole.sqlite", NVTX, list(ranges())[:3_000], "PRAGMA page_size = 512").read_bytes()
    draw, compared = random.Random(41), 0
    path = tmp_path / "damaged.sqlite"
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(100, len(content))] = draw.randrange(256)
        path.write_bytes(content)
        try:
            expected = read_by_sqlite(path, monkeypatch)
        except TraceAnalyzerError:
            continue
        assert read(path) == expected
        compared += 1
    assert compared > 40


def test_pages_give_what_sqlite_reads_of_public_exports(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row_count = 0
    for path in sorted((corpus / "nsys").glob("*.sqlite")):
        found = read(path)
        assert found == read_by_sqlite(path, monkeypatch), path.name
        row_count += sum(len(rows) for rows, _ in found.values())
    assert row_count > 100_000
