"""Nothing of a run vanishes without a word: a file that is no trace is named, and all rows of a database are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nsys_export import KERNEL, Ingested, ingest, kernel, launched, write_sqlite
from trace_event_tables import events, read, slice_text

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.discovery import discover
from traceanalyzer.errors import TraceAnalyzerError

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

GOOD = events(slice_text("before", 1), slice_text("after", 10))


UNREADABLE = [
    ("rank1.json", GOOD.encode("utf-16"), "text in UTF-16"),
    ("rank1.json", GOOD.encode("utf-16-be"), "text in UTF-16"),
    ("rank1.json", GOOD.encode("utf-16-le"), "text in UTF-16"),
    ("rank1.json", b"Permission denied", "no trace"),
    ("rank1.JSON", b"<html>", "no trace"),
    ("rank1.json.gz", gzip.compress(gzip.compress(GOOD.encode())), "compressed twice with gzip"),
    ("rank1.json.zst", b"(\xb5/\xfd\x04X", "compressed in another way"),
    ("rank1.sqlite", b"SQLite format", "no trace"),
]
# Given by themselves these are opened as archives of traces.
ARCHIVES = [
    ("rank1.json.gz", b"\x04\x22M\x18rest", "compressed in another way"),
    ("rank1.json.gz", b"PK\x03\x04", "an archive"),
]


@pytest.mark.parametrize(("name", "content", "what"), [*UNREADABLE, *ARCHIVES])
def test_a_file_named_like_a_trace_that_is_none_is_told_for_the_folder(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (tmp_path / "rank0.json").write_text(GOOD)
    (tmp_path / name).write_bytes(content)
    (error,) = discover(tmp_path).unreadable
    assert error.where == str(tmp_path / name)
    assert what in error.what


@pytest.mark.parametrize(("command", "code"), [("info", 0), ("diagnose", 0)])
def test_a_report_of_a_folder_says_each_file_that_was_left_out(
    tmp_path: Path, command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank0.json").write_text(GOOD)
    files = []
    for number, (name, content, _) in enumerate([*UNREADABLE, *ARCHIVES]):
        files.append(tmp_path / name.replace("rank1", f"rank{number + 1}"))
        files[-1].write_bytes(content)
    assert main([command, str(tmp_path), "--quiet"]) == code
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(files)
    for file in files:
        assert any(line.startswith(f"warning: left out {file}: ") for line in said), file


@pytest.mark.parametrize(("name", "content", "what"), UNREADABLE)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceAnalyzerError, match=what):
        discover(tmp_path / name)


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress])
def test_what_is_compressed_in_another_way_than_its_name_says_is_read(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "rank0.json").write_text(GOOD)
    (tmp_path / "rank1.json.gz").write_bytes(pack(GOOD.encode()))
    found = discover(tmp_path)
    assert [path.name for path, _ in found.sources] == ["rank0.json", "rank1.json.gz"]
    assert found.unreadable == ()
    with traceanalyzer.open_run(tmp_path, store=tmp_path / "store", attribution=False) as run:
        assert run.sql("SELECT count(*) FROM host_slices").fetchall() == [(4,)]


def test_json_that_is_no_trace_needs_no_word(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(GOOD)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "notes.txt").write_text("of no concern")
    assert discover(tmp_path).unreadable == ()


@pytest.fixture
def written_to(tmp_path: Path) -> Iterator[Path]:
    """An export of a program with two kernels that somebody still writes to: its last row stands in the log."""
    path = write_sqlite(tmp_path / "report.sqlite", launched(2))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        row = kernel(5000, 5100, 9)
        marks = ", ".join("?" * len(row))
        connection.execute(f'INSERT INTO "{KERNEL}" VALUES ({marks})', tuple(row.values()))
        yield path


def test_rows_in_the_log_of_a_database_are_read(written_to: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    found = Ingested(written_to, tmp_path / "store")
    assert found.column("gpu_ops", "start_ns") == [500, 1500, 5000]
    assert found.defects() == {}
    (tmp_path / "store").rename(tmp_path.with_name("store"))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_export_whose_tables_stand_in_its_log_alone_is_one(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'x')")
        assert [file for file, _ in discover(tmp_path).sources] == [path]


def test_a_row_that_joins_the_log_is_read_by_the_next_command(written_to: Path, tmp_path: Path) -> None:
    store = tmp_path / "kept"
    with traceanalyzer.open_run(written_to, store=store, attribution=False) as run:
        assert run.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(3,)]
    with closing(sqlite3.connect(written_to, isolation_level=None)) as connection:
        connection.execute(f'DELETE FROM "{KERNEL}" WHERE start = 500')
        with traceanalyzer.open_run(written_to, store=store, attribution=False) as run:
            assert run.sql("SELECT count(*) FROM gpu_ops").fetchall() == [(2,)]


def test_a_log_of_another_database_costs_nothing(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "report.sqlite", launched(2))
    (tmp_path / "report.sqlite-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(5000))
    assert Ingested(path, tmp_path / "store").column("gpu_ops", "start_ns") == [500, 1500]


def test_a_rollback_journal_is_counted_and_never_played_back(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "report.sqlite", launched(2))
    (tmp_path / "report.sqlite-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(512))
    found = Ingested(path, tmp_path / "store")
    assert found.column("gpu_ops", "start_ns") == [500, 1500]
    assert found.defects() == {"unfinished-write": 1}
    assert (tmp_path / "report.sqlite-journal").exists()


@pytest.mark.parametrize("count", [3, 20_000])
@pytest.mark.parametrize("place", [-8, -1])
def test_a_wrong_checksum_costs_nothing_but_a_word(tmp_path: Path, count: int, place: int) -> None:
    packed = bytearray(gzip.compress(events(*(slice_text(f"op {i}", i * 10) for i in range(count))).encode()))
    packed[place] ^= 1
    (tmp_path / "rank0.json.gz").write_bytes(packed)
    assert len(discover(tmp_path).sources) == 1
    tables = read(bytes(packed))
    assert len(tables.names()) == count
    assert "gzip-damaged" in tables.defects


def test_one_flipped_byte_in_a_small_gzip_keeps_what_lies_before_it(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(events(*(slice_text(f"op {i} {i * 7919}", i * 10) for i in range(500))).encode()))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "rank0.json.gz").write_bytes(packed)
    (found,) = discover(tmp_path).sources
    assert found[1].name == "json"
    tables = read(bytes(packed))
    assert tables.names()[0] == "op 0 0"
    assert {"gzip-damaged", "truncated", "unreadable-event", "mended-text"} & tables.defects.keys()


@pytest.mark.parametrize("padding", [1, 511, 300_000])
def test_padding_between_gzip_members_is_passed_over(padding: int) -> None:
    document = GOOD.encode()
    packed = gzip.compress(document[:80]) + bytes(padding) + gzip.compress(document[80:]) + bytes(padding)
    tables = read(packed)
    assert tables.names() == ["before", "after"]
    assert tables.defects == {}


@pytest.mark.parametrize("damage", ["checksum", "cut"])
def test_a_damaged_gzip_of_a_database_keeps_its_rows(tmp_path: Path, damage: str) -> None:
    path = write_sqlite(tmp_path / "plain.sqlite", launched(2))
    packed = bytearray(gzip.compress(path.read_bytes()))
    packed = packed[:-4] if damage == "cut" else packed[:-5] + b"\0" + packed[-4:]
    path.unlink()
    (tmp_path / "report.sqlite.gz").write_bytes(packed)
    found = Ingested(tmp_path / "report.sqlite.gz", tmp_path / "store")
    assert found.column("gpu_ops", "start_ns") == [500, 1500]
    assert found.defects() == {"unreadable-rows": 1}


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"


@pytest.mark.parametrize("rows", [ENDLESS, 'SELECT * FROM "CUPTI_ACTIVITY_KIND_MEMSET"'], ids=["endless", "a circle"])
def test_a_view_for_a_table_is_refused_and_not_run(tmp_path: Path, rows: str) -> None:
    view = f'CREATE VIEW "CUPTI_ACTIVITY_KIND_MEMCPY" AS {rows}'
    circle = 'CREATE VIEW "CUPTI_ACTIVITY_KIND_MEMSET" AS SELECT * FROM "CUPTI_ACTIVITY_KIND_MEMCPY"'
    with pytest.raises(TraceAnalyzerError, match="views stand for tables"):
        ingest(tmp_path, launched(2), [view, circle])


@pytest.mark.parametrize(
    "statement", ["CREATE VIEW first AS SELECT * FROM second", "CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start)"]
)
def test_other_views_and_virtual_tables_are_no_tables(tmp_path: Path, statement: str) -> None:
    found = ingest(tmp_path, launched(2), [statement, "CREATE VIEW second AS SELECT * FROM first"])
    assert found.column("gpu_ops", "start_ns") == [500, 1500]
    assert found.defects() == {}


def test_a_tree_that_leads_to_the_same_rows_again_and_again_ends(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "report.sqlite", launched(2), _narrow_rows(8_000))
    _knot(path)
    found = Ingested(path, tmp_path / "store")
    assert found.names == ["0"]
    assert found.defects()["unreadable-rows"] >= 1


def _narrow_rows(count: int) -> list[str]:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    return [
        "CREATE TABLE OSRT_API (start, end, globalTid)",
        f"INSERT INTO OSRT_API {numbers} SELECT i, i, 1 FROM n",
    ]


def _knot(path: Path) -> None:
    """Let every inner page of every tree have as many children as fit, all of them its first."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("VACUUM")
    data = bytearray(path.read_bytes())
    size, inner_page, most = 512, 5, 80
    for start in range(size, len(data), size):
        if data[start] == inner_page:
            first = int.from_bytes(data[start + 12 : start + 14], "big")
            child = data[start + first : start + first + 4]
            data[start + 3 : start + 5] = most.to_bytes(2, "big")
            data[start + 8 : start + 12] = child
            data[start + 12 : start + 12 + 2 * most] = first.to_bytes(2, "big") * most
    path.write_bytes(data)
