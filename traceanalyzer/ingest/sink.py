"""The folder into which an ingester writes one trace, or what else it read: one Parquet file per canonical table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from traceanalyzer.ingest.marks import marks_of
from traceanalyzer.schema import TableSchema, canonical_tables, trace_tables
from traceanalyzer.schema.parquet_files import parquet_options


@cache
def _empty_file(table: str) -> bytes:
    """Return the file of a canonical table without rows; most traces have several."""
    table_schema = canonical_tables()[table]
    schema = table_schema.arrow_schema(without=frozenset({table_schema.key}))
    target = pa.BufferOutputStream()
    pq.ParquetWriter(target, schema, **parquet_options(schema)).close()
    content: bytes = target.getvalue().to_pybytes()
    return content


class TraceSink:
    """Writes canonical tables, those of a trace by default, batch by batch; tables never written come out empty.

    The first column, such as `trace_id`, is left out: it is known only when the run is opened, and the views add it.
    """

    def __init__(self, folder: Path, tables: Mapping[str, TableSchema] | None = None) -> None:
        self.folder = folder
        self._tables = trace_tables() if tables is None else tables
        folder.mkdir(parents=True, exist_ok=True)
        self._writers: dict[str, pq.ParquetWriter] = {}

    def schema(self, table: str) -> pa.Schema:
        """Return the Arrow schema that `append` wants for a table."""
        schema = self._tables[table]
        return schema.arrow_schema(without=frozenset({schema.key}))

    def append(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows; columns are matched by name, absent ones become NULL, and types are cast."""
        schema = self.schema(table)
        columns = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.schema.names
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        self._writer(table, schema).write_table(pa.Table.from_arrays(columns, schema=schema))

    def path(self, table: str) -> Path:
        """Return the Parquet file of a table, for writers that fill it themselves."""
        return self.folder / f"{table}.parquet"

    def files(self, table: str) -> list[str]:
        """Return the files of a table that lie in the folder; those that the sink writes are whole once finished."""
        return sorted(str(path) for path in self.folder.glob(f"{table}*.parquet"))

    def finish(self, table: str) -> None:
        """Finish the file of one table, so that it can be read; a table that got no rows is written empty."""
        self._writer(table, self.schema(table)).close()

    def close(self) -> None:
        """Finish every file. A table may also lie in several files of its own, `name-….parquet`."""
        for name in self._tables:
            if name not in self._writers and not any(self.folder.glob(f"{name}-*.parquet")):
                self.path(name).write_bytes(_empty_file(name))
        of_traces = self._writers.pop("traces", None)
        for writer in self._writers.values():
            writer.close()
        if of_traces is not None:
            of_traces.add_key_value_metadata(marks_of(self.folder))
            of_traces.close()

    def _writer(self, table: str, schema: pa.Schema) -> pq.ParquetWriter:
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(self.path(table), schema, **parquet_options(schema))
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
