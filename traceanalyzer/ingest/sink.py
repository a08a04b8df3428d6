"""The folder into which an ingester writes one trace, or what else it read: a Parquet file for each table with rows.

The mark of a trace's folder, by which it is known without its tables, stands in the file of the table `traces`. So does
which framework the program is written with, as the names in its trace show.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceanalyzer.ingest.unread_formats import unread_device_work
from traceanalyzer.schema import TableSchema, parquet_options, trace_tables

CONTENT, ROLE, CAPTURE = "traceanalyzer.content", "traceanalyzer.role", "capture"
UNREAD = "unread\n"
_CODED = ["name", "category", "raw_category"]
# Work that a capture may hold beside its launches: copies before it, and the profiler's own.
_MOST_WORK_SHARE = 0.1
_LEAST_CAPTURED_SHARE = 0.9
# A capture by the calls of CUDA and HIP, or by PyTorch's function where the profiler left those out.
_BEGINS = r"^\w+StreamBeginCapture|torch/cuda/graphs\.py.*: capture_begin$"
_LAUNCHES_QUERY = rf"""
WITH marks AS (
    SELECT
        thread_id,
        start_ns,
        CASE
            WHEN regexp_matches(name, '{_BEGINS}') THEN 1
            WHEN regexp_matches(name, '^\w+StreamEndCapture|torch/cuda/graphs.py.*: capture_end$')
            THEN 0
        END AS opens,
        calls_to(name, 'launch') AS launches,
        calls_to(name, 'replay') AS replays
    FROM read_parquet($slices)
    WHERE regexp_matches(name, 'Capture|capture_|Launch')
),
placed AS (
    SELECT
        *,
        last_value(opens IGNORE NULLS) OVER (
            PARTITION BY thread_id ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS is_open
    FROM marks
)
SELECT
    count(*) FILTER (WHERE launches),
    count(*) FILTER (WHERE launches AND is_open = 1),
    count(*) FILTER (WHERE replays)
FROM placed
"""


def define_calls(database: duckdb.DuckDBPyConnection) -> None:
    """Define the macro that says what a call of a device's runtime does, by its name."""
    database.execute((Path(__file__).parents[1] / "macros" / "calls_to.sql").read_text(encoding="utf-8"))


def marks_of(folder: Path) -> dict[str, str]:
    """Return the marks of a trace whose tables, other than `traces`, are finished."""
    marks = {CONTENT: _content(folder)}
    op_count, slice_count = (_row_count(folder / f"{name}.parquet") for name in ("gpu_ops", "host_slices"))
    role = CAPTURE if _is_capture(folder, op_count, slice_count) else _unread_work(folder, op_count, slice_count)
    return marks | ({ROLE: role} if role else {})


def marks_in(metadata: Mapping[bytes, bytes] | None) -> tuple[str, str]:
    """Return the content and the role out of a file's metadata; empty where they are not known."""
    found = metadata or {}
    return found.get(CONTENT.encode(), b"").decode(), found.get(ROLE.encode(), b"").decode()


def _content(folder: Path) -> str:
    """Return a hash of the tables. Those that lie in several files are cut where reading was, so they do not count."""
    content = hashlib.blake2b(digest_size=16)
    for file in sorted(folder.glob("*.parquet")):
        if file.stem == "traces" or "-" in file.stem:
            continue
        content.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            while block := stream.read(2**20):
                content.update(block)
    return content.hexdigest()


def _is_capture(folder: Path, op_count: int, slice_count: int) -> bool:
    slices = folder / "host_slices.parquet"
    if slice_count == 0 or op_count > _MOST_WORK_SHARE * slice_count or not _names_any(slices, _BEGINS):
        return False
    with duckdb.connect() as connection:
        define_calls(connection)
        rows: list[tuple[Any, ...]] = connection.execute(_LAUNCHES_QUERY, {"slices": str(slices)}).fetchall()
    launches, captured, replays = rows[0]
    is_captured = captured > 0 and captured >= _LEAST_CAPTURED_SHARE * launches
    return bool(is_captured and not replays and op_count <= _MOST_WORK_SHARE * launches)


def _unread_work(folder: Path, op_count: int, slice_count: int) -> str:
    """Return the role of a trace without GPU work that holds work of a device as other slices; empty for all others."""
    slices, threads, asyncs = (folder / f"{name}.parquet" for name in ("host_slices", "threads", "async_slices"))
    if op_count:
        return ""
    processes: list[str | None] = []
    others: list[str | None] = []
    if slice_count and _row_count(threads):
        named = [column.to_pylist() for column in _columns(threads, "thread_id", "process_name", "pid").columns]
        # Without names, processes may have texts in the place of numbers.
        names = {thread: name or pid for thread, name, pid in zip(*named, strict=True)}
        rows = _columns(slices, "thread_id", "category", "raw_category")
        processes += map(names.get, pc.unique(rows.column("thread_id")).to_pylist())
        others += _categories_of(rows, "other")
    if _row_count(asyncs):
        others += _categories_of(_columns(asyncs, "category", "raw_category"), "async")
    known = unread_device_work(processes, others)
    return UNREAD + "\n".join(known) if known else ""


def _categories_of(rows: pa.Table, category: str) -> list[str | None]:
    """Return what the files call the slices of a category."""
    is_of_it = pc.equal(rows.column("category").cast(pa.string()), pa.scalar(category))
    found: list[str | None] = pc.unique(rows.filter(is_of_it).column("raw_category")).to_pylist()
    return found


def _names_any(slices: Path, pattern: str) -> bool:
    """Return whether the name of a slice matches a pattern; each name is looked at once."""
    names = pc.unique(_columns(slices, "name").column("name"))
    return any(re.search(pattern, name) for name in names.to_pylist() if name is not None)


def _columns(file: Path, *names: str) -> pa.Table:
    with pq.ParquetFile(file, read_dictionary=[name for name in names if name in _CODED]) as rows:
        return rows.read(columns=list(names), use_threads=False)


def _row_count(file: Path) -> int:
    return int(pq.ParquetFile(file).metadata.num_rows) if file.is_file() else 0


_CODED_TEXT = pa.dictionary(pa.int32(), pa.string())


def _coded_schema(schema: pa.Schema, given: pa.Schema) -> pa.Schema:
    """Return the schema with texts coded that the rows have coded: to Parquet both are the same."""
    coded = [name for name in given.names if pa.types.is_dictionary(given.field(name).type)]
    return pa.schema(
        [
            field.with_type(_CODED_TEXT) if field.name in coded and field.type == pa.string() else field
            for field in schema
        ]
    )


def _recoded(column: Any) -> Any:
    """Return coded texts with a list of those that there are, in the order in which they come, as texts are written."""
    whole: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    used = whole.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(used.indices, whole.dictionary.take(used.dictionary))


class TraceSink:
    """Writes canonical tables, those of a trace by default, batch by batch; a table without rows has no file.

    The first column, such as `trace_id`, is left out: it is known only when the run is opened, and the views add it.
    """

    def __init__(self, folder: Path, tables: Mapping[str, TableSchema] | None = None) -> None:
        self.folder = folder
        self._tables = trace_tables() if tables is None else tables
        folder.mkdir(parents=True, exist_ok=True)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._with_rows: set[str] = set()

    def schema(self, table: str) -> pa.Schema:
        """Return the Arrow schema that `append` wants for a table."""
        schema = self._tables[table]
        return schema.arrow_schema(without=frozenset({schema.key}))

    def append(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; columns are matched by name, absent ones become NULL, and types are cast."""
        if not rows.num_rows:
            return
        self._with_rows.add(table)
        given = rows.schema
        schema: Any = (
            self._writers[table].schema if table in self._writers else _coded_schema(self.schema(table), given)
        )
        columns = []
        for field in schema:
            if field.name not in given.names:
                columns.append(pa.nulls(rows.num_rows, field.type))
            elif field.type == _CODED_TEXT and pa.types.is_dictionary(given.field(field.name).type):
                columns.append(_recoded(rows.column(field.name)))
            else:
                column = rows.column(field.name)
                columns.append(column if column.type == field.type else column.cast(field.type))
        self._writer(table, schema).write_table(pa.Table.from_arrays(columns, schema=schema))

    def path(self, table: str) -> Path:
        """Return the Parquet file of a table, for writers that fill it themselves."""
        return self.folder / f"{table}.parquet"

    def files(self, table: str) -> list[str]:
        """Return the files of a table that lie in the folder; those that the sink writes are whole once finished."""
        return sorted(str(path) for path in self.folder.glob(f"{table}*.parquet"))

    def finish(self, table: str) -> None:
        """Finish the file of one table, so that it can be read until `close`, also without rows."""
        self._writer(table, self.schema(table)).close()

    def close(self) -> None:
        """Finish every file, and remove those without rows, of which a large run would have many thousands.

        A table may also lie in several files of its own, `name-….parquet`.
        """
        of_traces = self._writers.pop("traces", None)
        for writer in self._writers.values():
            writer.close()
        for file in self.folder.glob("*.parquet"):
            if file.stem not in self._with_rows and not _row_count(file):
                file.unlink()
        if of_traces is not None:
            of_traces.add_key_value_metadata(marks_of(self.folder))
            of_traces.close()

    def _writer(self, table: str, schema: pa.Schema) -> pq.ParquetWriter:
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(
                self.path(table), schema, store_schema=False, **parquet_options(schema)
            )
        return self._writers[table]

    def __enter__(self) -> TraceSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            for writer in self._writers.values():
                writer.close()


def recognise_framework(
    connection: duckdb.DuckDBPyConnection,
    sink: TraceSink,
    processes: Sequence[str] = (),
    *,
    by_pytorch: bool = False,
    vendor: str | None = None,
) -> str | None:
    """Return the most specific framework of the program, as `traces.framework` lists them; None: no name shows it.

    The sink's files of host slices and GPU work are finished. `processes` are the names of the trace's processes;
    `by_pytorch` says that PyTorch's own profiler recorded it, so that without better evidence it is a PyTorch program;
    `vendor` is that of all its devices.
    """
    parameters = {
        "host": sink.files("host_slices"),
        "gpu": sink.files("gpu_ops"),
        "processes": list(processes),
        "by_pytorch": by_pytorch,
        "vendor": vendor,
    }
    row = connection.execute(_query(), parameters).fetchall()[0]
    framework: str | None = row[0]
    return framework


@cache
def _query() -> str:
    return Path(__file__).with_name("framework.sql").read_text(encoding="utf-8")
