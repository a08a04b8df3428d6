"""Tables as commented CREATE TABLE files: the only definition of a column, for all that reads or writes them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

_COLUMN = re.compile(r"^\s{4}(?P<name>\w+)\s+(?P<type>[A-Z]+)(?P<required> NOT NULL)?,?\s*-- (?P<comment>.+)$")
_ARROW_TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
}


class Column(Struct, frozen=True):
    """One column: its DuckDB type, whether it may be NULL, and what it means."""

    name: str
    type: str
    required: bool
    comment: str


class TableSchema(Struct, frozen=True):
    """One table: what a row is, and its columns in order."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    sql: str

    @property
    def key(self) -> str:
        """The column that is known only when a run is opened: the number of a trace, or the name of another file."""
        return self.columns[0].name

    @property
    def is_of_trace(self) -> bool:
        """Whether its rows are of traces; else they are of tables that lie beside the traces."""
        return self.key == "trace_id"

    @property
    def is_of_capture(self) -> bool:
        """Whether its rows are of captures of graphs, which are no traces of the run."""
        return self.key == "capture_id"

    def arrow_schema(self, *, without: frozenset[str] = frozenset()) -> pa.Schema:
        """Return the table's columns as an Arrow schema, those named in `without` left out."""
        return pa.schema(
            [pa.field(c.name, _ARROW_TYPES[c.type], not c.required) for c in self.columns if c.name not in without]
        )


def parse_table(path: Path) -> TableSchema:
    """Read one commented CREATE TABLE file; every column line must carry its comment."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    body = lines.index(f"CREATE TABLE {path.stem} (")
    columns = []
    for line in lines[body + 1 : lines.index(");")]:
        match = _COLUMN.match(line)
        if match is None:
            raise ValueError(f"{path}: not a commented column: {line!r}")
        columns.append(Column(match["name"], match["type"], match["required"] is not None, match["comment"].strip()))
    comment = " ".join(line.removeprefix("-- ") for line in lines[:body])
    return TableSchema(path.stem, comment, tuple(columns), text)


@cache
def load_tables(folder: Path) -> dict[str, TableSchema]:
    """Return the tables defined in a folder, by name."""
    return {path.stem: parse_table(path) for path in sorted(folder.glob("*.sql"))}


def canonical_tables() -> dict[str, TableSchema]:
    """Return the tables that every ingester fills, by name."""
    return load_tables(Path(__file__).parent)


def trace_tables() -> dict[str, TableSchema]:
    """Return the canonical tables whose rows are of traces, by name."""
    return {name: table for name, table in canonical_tables().items() if table.is_of_trace}


def run_tables() -> dict[str, TableSchema]:
    """Return the canonical tables whose rows are of other files of the run, by name."""
    return {name: table for name, table in canonical_tables().items() if not (table.is_of_trace or table.is_of_capture)}


def capture_tables() -> dict[str, TableSchema]:
    """Return the canonical tables whose rows are of captures of graphs, by name."""
    return {name: table for name, table in canonical_tables().items() if table.is_of_capture}


def derived_tables() -> dict[str, TableSchema]:
    """Return the tables that attribution computes, by name."""
    return load_tables(Path(__file__).parent.parent / "attribution" / "schema")


def rule_tables() -> dict[str, TableSchema]:
    """Return the tables that only the SQL of a rule can read, by name."""
    return load_tables(Path(__file__).parent.parent / "rules" / "schema")


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return how tables of the store are written.

    Times and ids hardly repeat: looking for repetitions in them costs more than writing them. Stacks do repeat. No
    query leaves out rows by the first and the last of their texts, which take longer to find than texts to write.
    """
    texts = [field.name for field in schema if field.type == pa.string() or pa.types.is_dictionary(field.type)]
    repeating = [*texts, *(field.name for field in schema if field.name == "stack_id")]
    packed = [field.name for field in schema if pa.types.is_integer(field.type) and field.name not in repeating]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": repeating,
        "write_statistics": [field.name for field in schema if field.name not in texts],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    }
