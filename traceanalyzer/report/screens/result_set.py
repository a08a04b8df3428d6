"""The rows of a query: as a table, CSV or JSON with secrets masked, or exact as Parquet; streamed, however many."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Protocol, TextIO

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.visible import CsvRows, as_json, masked, visible

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 10_000
# A terminal gets this many rows; a pipe gets all.
TERMINAL_ROWS = 100


class ResultSet(Protocol):
    """The rows of a query that DuckDB runs, with or without a limit."""

    @property
    def description(self) -> Any: ...

    def fetchmany(self, size: int, /) -> list[tuple[Any, ...]]: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


def write_table(result: ResultSet, stream: TextIO, *, width: int | None) -> None:
    """Write an aligned table; a `width` cuts cells to it and rows to the first hundred, and says so."""
    from traceanalyzer.report.renderers.page import aligned

    columns = [_cell(name) for name in column_names(result)]  # PIVOT makes columns of a trace's names
    rows = result.fetchmany(TERMINAL_ROWS + 1) if width else result.fetchall()
    shown = rows[:TERMINAL_ROWS] if width else rows
    right = frozenset(
        i
        for i in range(len(columns))
        if any(isinstance(row[i], int | float | decimal.Decimal) and not isinstance(row[i], bool) for row in shown)
    )
    lines = aligned(columns, [[_cell(value) for value in row] for row in shown], room=width, right=right)
    lines.insert(1, "─" * (min(max(map(len, lines)), width) if width else max(map(len, lines))))
    for line in lines:
        stream.write((line if width is None or len(line) <= width else line[: width - 1] + "…") + "\n")
    if len(rows) > len(shown):
        stream.write(f"… the first {len(shown)} rows; a LIMIT, a pipe or --output gets what you want\n")
    elif not rows:
        stream.write("(no rows)\n")


def write_csv(result: ResultSet, stream: TextIO) -> None:
    """Write a header and rows; NULL is an empty field. On a terminal, characters that steer it are escapes."""
    shown = _visible_cell if stream.isatty() else _masked_cell
    written = CsvRows(stream)
    written.add(map(shown, column_names(result)))
    for rows in _batches(result):
        for row in rows:
            written.add(as_json(_plain(value)) if isinstance(value, list | dict) else shown(value) for value in row)


def write_json(result: ResultSet, stream: TextIO) -> None:
    """Write a JSON array with one object a row; NULL and what is no number are null."""
    columns = column_names(result)
    separator = "["
    for rows in _batches(result):
        for row in rows:
            record = {name: _plain(value) for name, value in zip(columns, row, strict=True)}
            stream.write(separator + "\n  " + as_json(record))
            separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
    """Write a Parquet file with the query's own column types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        writer = pq.ParquetWriter(stream, schema, compression="zstd")
    except pa.ArrowNotImplementedError as error:  # an interval or a union, also inside a list
        types = ", ".join(f"{visible(field.name)} {field.type}" for field in schema)
        raise TraceAnalyzerError(
            f"Parquet has no type for a column of the rows: {types}",
            "--format parquet",
            "cast the column: CAST(… AS VARCHAR) makes a text, epoch(…) seconds of an interval",
        ) from error
    with writer:
        for batch in batches:
            writer.write_batch(batch)


def column_names(result: ResultSet) -> list[str]:
    """Return the names of a result's columns; empty where a statement has none."""
    return [column[0] for column in result.description or ()]


def _batches(result: ResultSet) -> Iterator[list[tuple[Any, ...]]]:
    while rows := result.fetchmany(BATCH_ROWS):
        yield rows


def _visible_cell(value: Any) -> Any:
    return visible(value) if isinstance(value, str) else value


def _masked_cell(value: Any) -> Any:
    return masked(value) if isinstance(value, str) else value


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | dict):
        return visible(as_json(_plain(value)))
    # A name with a line break must not break the table, nor steer the terminal.
    return visible(str(value).replace("\n", "\\n").replace("\t", " "))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
