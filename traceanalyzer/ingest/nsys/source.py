"""The source of an export's rows: an SQLite file or a folder of Parquet files, both read column by column."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.ingest.nsys.pages import page_batches, stored_table
from traceanalyzer.ingest.nsys.tables import TableLayout, lay_out

# A batch of the widest table is about 4 MB: small beside the working memory, large enough to cost nothing per batch.
BATCH_ROWS = 16_384
_ADBC_BATCH_ROWS = "adbc.sqlite.query.batch_rows"
# No row of a table takes fewer bytes: a file that seems to hold more rows leads to some of them again and again.
_LEAST_ROW_BYTES = 4
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
# The text of a schema may call functions where a table is read (of an index, say): only harmless ones.
_DISTRUST = "PRAGMA trusted_schema = OFF"

# What Arrow raises for files that are damaged, or forged: also for more bytes than there are, and for a name twice.
_UNREADABLE = (pa.ArrowException, OSError, MemoryError, KeyError, ValueError)

# Which tables are read, by relation, out of the columns and the numbers of rows of all.
LayOut = Callable[[Mapping[str, list[str]], Mapping[str, int]], dict[str, TableLayout]]
_EXPORT_AGAIN = "export the report again: nsys export --type sqlite report.nsys-rep"

# Virtual tables have no page: what they give is computed, and need not end.
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
_VIEWS = "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"


class RowSource(Protocol):
    """What the rows of tables come from."""

    def batches(self, layout: TableLayout, columns: Sequence[str], defects: Defects) -> Iterator[pa.RecordBatch]:
        """Yield the named columns (ours, those that are stored) in the order of the file; text as bytes or text."""


class ExportSource(RowSource, Protocol):
    """An export opened for reading: which tables it has, their rows, and what is wrong with the file as a whole."""

    path: Path
    layouts: dict[str, TableLayout]
    row_counts: dict[str, int]
    damage: str | None

    def distinct(self, layout: TableLayout, column: str) -> list[int]:
        """Return the different integers of a column."""

    def close(self) -> None:
        """Close the files."""


def open_source(path: Path) -> ExportSource:
    """Open an SQLite export or a folder of Parquet files; raises TraceAnalyzerError where it is neither.

    Also where views stand for tables: without them, work would seem to be missing that the file shows.
    """
    if path.is_dir():
        return ParquetSource(path)
    source = SqliteSource(path)
    views = source.views_for_tables()
    if views:
        source.close()
        names = views[0] if len(views) == 1 else f"{views[0]} and {len(views) - 1} more"
        what = f"views stand for tables of Nsight Systems, and only tables are read: {names}"
        raise TraceAnalyzerError(
            what, path, f"{_EXPORT_AGAIN}; or make tables of them: CREATE TABLE … AS SELECT * FROM the view"
        )
    return source


class SqliteSource:
    """Reads the tables of an SQLite export without locking or touching it; views are none, whatever they are called.

    Rows come from the pages of the file, or else through the ADBC driver; where that refuses a table (values of several
    types in one column), through Python's own module, which costs two to three times as much.
    """

    def __init__(self, path: Path, lay_out: LayOut = lay_out, again: str = _EXPORT_AGAIN) -> None:
        """Open a database; `lay_out` says which of its tables are read, `again` how to get another file."""
        self.path = path
        # immutable: no lock, no journal and no -wal file beside an input that may lie on a read-only disk.
        self._uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        self._connection = sqlite3.connect(self._uri, uri=True)
        self._connection.text_factory = bytes
        self._connection.execute(_DISTRUST)
        self._most_rows = path.stat().st_size // _LEAST_ROW_BYTES
        self.damage: str | None = None
        try:
            self.tables = self._tables_despite_damage()
            self.row_counts = {name: self._count(name) for name in self.tables}
        except sqlite3.DatabaseError as error:
            self.close()
            raise TraceAnalyzerError(f"the SQLite database cannot be read: {error}", path, again) from error
        self.layouts = lay_out(self.tables, self.row_counts)

    def _tables_despite_damage(self) -> dict[str, list[str]]:
        try:
            return self._list_tables()
        except sqlite3.DatabaseError as error:
            # A file shorter than its header says is refused as a whole, unless the schema counts as under repair.
            self._connection.execute("PRAGMA writable_schema = ON")
            self.damage = str(error)
            return self._list_tables()

    def _list_tables(self) -> dict[str, list[str]]:
        names = self._connection.execute(_TABLES).fetchall()
        tables = {}
        for (name,) in names:
            text = name.decode("utf-8", "replace")
            rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (text,)).fetchall()
            tables[text] = [column.decode("utf-8", "replace") for (column,) in rows]
        return tables

    def views_for_tables(self) -> list[str]:
        """Return the views that have the name of a table which would be read, and which is not there."""
        names = [name.decode("utf-8", "replace") for (name,) in self._connection.execute(_VIEWS)]
        return [name for name in names if not lay_out({name: []}, {}).keys() <= self.layouts.keys()]

    def _count(self, table: str) -> int:
        """Return the number of rows; of a damaged table as many as can be reached."""
        name = _identifier(table)
        try:
            rows = f"SELECT 1 FROM {name} LIMIT ?"
            (count,) = self._connection.execute(f"SELECT count(*) FROM ({rows})", (self._most_rows + 1,)).fetchone()
            if count > self._most_rows:
                self.damage = f"{table} leads to more rows than the file has room for"
            return min(int(count), self._most_rows)
        except sqlite3.DatabaseError:
            reached = 0
            with suppress(sqlite3.DatabaseError):
                for _ in self._connection.execute(f"SELECT 1 FROM {name} LIMIT ?", (self._most_rows,)):
                    reached += 1
            return reached

    def batches(self, layout: TableLayout, columns: Sequence[str], defects: Defects) -> Iterator[pa.RecordBatch]:
        done = 0
        table = None if self.damage else stored_table(self._connection, layout, columns)
        if table is not None:
            longest = layout.table.longest + 1
            for batch in page_batches(self.path, table, columns, longest, self._most_rows, BATCH_ROWS):
                if batch is None:
                    break
                done += batch.num_rows
                yield batch
            else:
                return
        query = f"{self._select(layout, columns)} LIMIT {self._most_rows}"
        for batch in self._sqlite_batches(query, layout, columns, defects):
            if batch.num_rows > done:
                yield batch.slice(done)
            done = max(done - batch.num_rows, 0)

    def _sqlite_batches(
        self, query: str, layout: TableLayout, columns: Sequence[str], defects: Defects
    ) -> Iterator[pa.RecordBatch]:
        import adbc_driver_manager

        count = 0
        try:
            for batch in self._adbc_batches(query):
                count += batch.num_rows
                yield batch.rename_columns(list(columns))
        except (adbc_driver_manager.Error, pa.ArrowInvalid, OSError):
            yield from self._slow_batches(query, layout, columns, count, defects)

    def _select(self, layout: TableLayout, columns: Sequence[str]) -> str:
        """Build the query: names of columns come from the file's own schema, text is handed out as bytes.

        A text of more bytes than are read comes with one of those behind them, to tell that there are more.
        """
        types = {column.name: column.type for column in layout.table.columns}
        terms = []
        for column in columns:
            stored = _identifier(layout.stored[column])
            # COALESCE: the driver takes a column that starts with NULLs for a number.
            text = f"COALESCE(substr(CAST({stored} AS BLOB), 1, {layout.table.longest + 1}), x'')"
            terms.append(text if types[column] in ("text", "blob") else stored)
        return f"SELECT {', '.join(terms)} FROM {_identifier(layout.stored_name)}"

    def _adbc_batches(self, query: str) -> Iterator[pa.RecordBatch]:
        # Below its `dbapi`, which imports pandas: half a second.
        import adbc_driver_sqlite
        from adbc_driver_manager import AdbcConnection, AdbcStatement

        with (
            adbc_driver_sqlite.connect(self._uri) as database,
            AdbcConnection(database) as connection,
            AdbcStatement(connection) as statement,
        ):
            statement.set_sql_query(_DISTRUST)
            statement.execute_query()
            statement.set_options(**{_ADBC_BATCH_ROWS: str(BATCH_ROWS)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            yield from pa.RecordBatchReader.from_stream(stream)

    def _slow_batches(
        self, query: str, layout: TableLayout, columns: Sequence[str], skip: int, defects: Defects
    ) -> Iterator[pa.RecordBatch]:
        kinds = {column.name: column.type for column in layout.table.columns}
        for rows in self._rows_up_to_damage(f"{query} OFFSET ?", skip, layout, defects):
            arrays = [
                _array(values, kinds[column], layout, column, defects)
                for column, values in zip(columns, zip(*rows, strict=True), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))

    def _rows_up_to_damage(
        self, query: str, skip: int, layout: TableLayout, defects: Defects
    ) -> Iterator[list[tuple[object, ...]]]:
        rows: list[tuple[object, ...]] = []
        try:
            for row in self._connection.execute(query, (skip,)):
                rows.append(row)
                if len(rows) == BATCH_ROWS:
                    yield rows
                    rows = []
        except sqlite3.DatabaseError as error:
            defects.add("unreadable-rows", example=f"{layout.stored_name}: {error}")
        if rows:
            yield rows

    def distinct(self, layout: TableLayout, column: str) -> list[int]:
        rows = f"SELECT {_identifier(layout.stored[column])} FROM {_identifier(layout.stored_name)} LIMIT ?"
        try:
            values = self._connection.execute(f"SELECT DISTINCT * FROM ({rows})", (self._most_rows,))
            return sorted(value for (value,) in values if isinstance(value, int))
        except sqlite3.DatabaseError:
            return []

    def json_numbers(self, table: str, column: str, keys: Sequence[str]) -> dict[str, int]:
        """Return the whole numbers that an object in the first row has under some keys; nothing else of it is read."""
        terms = ", ".join("json_extract(value, ?)" for _ in keys)
        query = (
            f"SELECT {terms} FROM (SELECT CAST({_identifier(column)} AS TEXT) AS value FROM {_identifier(table)} "
            "LIMIT 1) WHERE json_valid(value)"
        )
        try:
            row = self._connection.execute(query, [f"$.{key}" for key in keys]).fetchone() or ()
        except sqlite3.DatabaseError:
            return {}
        texts = [value.decode("ascii", "replace") if isinstance(value, bytes) else str(value) for value in row]
        return {key: int(text) for key, text in zip(keys, texts, strict=False) if _WHOLE_NUMBER.fullmatch(text)}

    def close(self) -> None:
        self._connection.close()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _array(values: Sequence[object], kind: str, layout: TableLayout, column: str, defects: Defects) -> Column:
    """Build a column from Python values; a value of another type becomes NULL and is counted."""
    if kind in ("text", "blob"):
        return pa.array([value if isinstance(value, bytes) else str(value).encode() for value in values], pa.binary())
    wanted: tuple[type, ...] = (int,) if kind == "int" else (int, float)
    bad = [value for value in values if value is not None and not isinstance(value, wanted)]
    if bad:
        defects.add("mixed-types", len(bad), f"{layout.stored_name}.{column}: {bad[0]!r}")
    kept = [value if isinstance(value, wanted) else None for value in values]
    return pa.array(kept, pa.int64() if kind == "int" else pa.float64())


class ParquetSource:
    """Reads a folder of `<TABLE>.parquet` files, as `nsys export --type parquetdir` writes it.

    A file that cannot be read costs its table.
    """

    def __init__(self, path: Path) -> None:
        """Open a folder; raise TraceAnalyzerError where none of its files can be read."""
        self.path = path
        self._files: dict[str, Path] = {}
        columns: dict[str, list[str]] = {}
        self.row_counts = {}
        damages: list[str] = []
        for file in sorted(path.glob("*.parquet")):
            if not file.is_file():  # a pipe would be waited for
                damages.append(f"{file.name}: no regular file")
                continue
            try:
                with pq.ParquetFile(file) as parquet:
                    columns[file.stem] = list(parquet.schema_arrow.names)
                    self.row_counts[file.stem] = parquet.metadata.num_rows
            except _UNREADABLE as error:
                damages.append(f"{file.name}: {error}")
                continue
            self._files[file.stem] = file
        self.damage = "; ".join(damages) or None
        if not self._files:
            raise TraceAnalyzerError(f"no Parquet file can be read: {self.damage}", path, _EXPORT_AGAIN)
        self.layouts = lay_out(columns, self.row_counts)

    def batches(self, layout: TableLayout, columns: Sequence[str], defects: Defects) -> Iterator[pa.RecordBatch]:
        """Yield the named columns up to where the file is damaged; see ExportSource."""
        stored = [layout.stored[column] for column in columns]
        try:
            with pq.ParquetFile(self._files[layout.stored_name]) as parquet:
                for batch in parquet.iter_batches(BATCH_ROWS, columns=stored):
                    arrays = [_decoded(batch.column(name)) for name in stored]
                    yield pa.RecordBatch.from_arrays(arrays, list(columns))
        except _UNREADABLE as error:
            defects.add("unreadable-rows", example=f"{layout.stored_name}.parquet: {error}")

    def distinct(self, layout: TableLayout, column: str) -> list[int]:
        values: set[int] = set()
        for batch in self.batches(layout, [column], Defects()):
            if pa.types.is_integer(batch.column(0).type):
                values.update(value for value in pc.unique(batch.column(0)).to_pylist() if value is not None)
        return sorted(values)

    def close(self) -> None:
        """Nothing is kept open."""


def _decoded(array: Column) -> Column:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
