"""Texts in other languages: names and paths as SQL, and rows as CSV that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import decimal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO


def literal(path: Path) -> str:
    """Return a path of our own store as a SQL text; views cannot have parameters."""
    return quoted(str(path))


def quoted(text: str) -> str:
    """Return a text of our own as a SQL text, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


# What a spreadsheet computes, or moves into the next cell, when it opens a file: names in traces come from strangers.
_FORMULA = "=+-@\t\r\n＝＋－＠"
_LINE_END = "\r\n"


def as_cell(value: Any) -> Any:
    """Return a value as the cell that shows it: a text that would be a formula stands behind an apostrophe."""
    if value is None or isinstance(value, int | float | decimal.Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(tuple(_FORMULA)) else text


def cell_sql(column: str) -> str:
    """Return the same in DuckDB's SQL, for a quoted name of a column of texts."""
    starts = ", ".join(f"chr({ord(start)})" for start in _FORMULA)
    return f"CASE WHEN left({column}, 1) IN ({starts}) THEN chr(39) || {column} ELSE {column} END"


class CsvRows:
    """Writes rows; a line ends with a line feed, and a text that holds any line break is quoted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Python's writer quotes only what ends its own lines.
        self._writer = csv.writer(self, lineterminator=_LINE_END)

    def write(self, line: str) -> None:
        """Take a line from Python's writer."""
        self._stream.write(line.removesuffix(_LINE_END) + "\n")

    def add(self, values: Iterable[Any]) -> None:
        """Write a row."""
        self._writer.writerow([as_cell(value) for value in values])
