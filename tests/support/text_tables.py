"""Rows as text: a head of column names, then one row a line, cells set apart by two spaces or more."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import duckdb
from fixture_runs import open_fixture

from traceanalyzer.query import engine

_NULL = "-"
_WORDS: dict[str, Any] = {_NULL: None, "true": True, "false": False}


def rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a text table; - is NULL, whole numbers are integers, the rest is text."""
    head, *body = (re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines())
    return [dict(zip(head, map(_value, cells), strict=True)) for cells in body]


def _value(cell: str) -> Any:
    if cell in _WORDS:
        return _WORDS[cell]
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def connect(reader: str | None = None, **tables: str | list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """Return a connection over text tables; `steps` and `ledger_rows` are those of the attribution schema.

    Columns that are left out get what an empty fixture has: device 0 of the only trace, NULL or zero. Where the query
    that will be asked is given, there are no other metrics than it needs.
    """
    attribution = {"steps", "ledger_rows", "windows"}
    given = {
        f"attribution.{name}" if name in attribution else name: rows(table) if isinstance(table, str) else table
        for name, table in tables.items()
    }
    readers = None if reader is None else [reader]
    # What a transaction writes, no other sees, and it is gone with its connection: half the time of an own database.
    lent = _empty().cursor()
    lent.begin()
    try:
        return open_fixture(None, given, readers, lent)
    except duckdb.TransactionException:  # a test that holds two connections
        return open_fixture(None, given, readers)


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    return engine.connect_empty()


def ask(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return connection.execute(query).fetchall()
