"""Runs a rule's SQL so that it can be wrong or slow, but cannot read a file, reach the network, or hang the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb

from traceanalyzer.rules.stopwatch import interrupted_after

TIMEOUT_S = 30.0
# For queries of our own, which end.
UNLIMITED = math.inf
ROW_LIMIT = 1_000_000

_LOCKS = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)


class RuleQueryError(Exception):
    """A rule's SQL failed: it is no single SELECT, does not bind, raised, or took too long.

    `line` is the line of the SQL text that DuckDB points at, from 1.
    """

    def __init__(self, what: str, line: int = 1) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True)
class Rows:
    """The answer of a query: column names and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def lock(con: duckdb.DuckDBPyConnection, allowed_directories: tuple[str, ...] = ()) -> None:
    """Shut a connection's database off from files (but for the given folders) and network, for good."""
    folders = ", ".join(f"'{folder.replace(chr(39), chr(39) * 2)}'" for folder in allowed_directories)
    # Settings take no parameters; the folders are those of our own store.
    con.execute(f"SET allowed_directories = [{folders}]")
    for statement in _LOCKS:
        con.execute(statement)


def check_select(con: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """Return the parameters of a text that is exactly one SELECT; raises RuleQueryError otherwise."""
    return set(_parsed(con, sql).named_parameters)


def columns(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of one SELECT with their types; it is bound and not run, so that one without end answers."""
    check_select(con, sql)
    statement = _parsed(con, f"SELECT * FROM ({sql}\n) LIMIT 0")
    try:
        described = con.execute(statement, _named(statement, values)).description or ()
    except duckdb.Error as error:
        raise _query_error(error) from error
    con.abort()
    return {name: str(kind) for name, kind, *_ in described}


def query(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> Rows:
    """Return the rows of one SELECT with the bound parameters it names; at most ROW_LIMIT of them."""
    statement = _parsed(con, sql)
    named = _named(statement, values)
    try:
        with interrupted_after(timeout_s, con):
            cursor = con.execute(statement, named)
            names = tuple(column[0] for column in cursor.description or ())
            rows = cursor.fetchmany(ROW_LIMIT)
            if len(rows) == ROW_LIMIT:
                con.abort()  # the rest of an answer that nobody reads would block the connection
    except duckdb.InterruptException as error:
        raise RuleQueryError(f"its query took longer than {timeout_s:g} s") from error
    except duckdb.Error as error:
        raise _query_error(error) from error
    return Rows(names, tuple(tuple(_plain(value) for value in row) for row in rows))


# Parsed texts are bound to no connection, and the same few are asked again and again.
_PARSED: dict[str, duckdb.Statement] = {}


def _parsed(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the one SELECT that a text is."""
    if sql in _PARSED:
        return _PARSED[sql]
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise _query_error(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise RuleQueryError("must be exactly one SELECT statement")
    return _PARSED.setdefault(sql, statements[0])


def _named(statement: duckdb.Statement, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters that a statement names."""
    names = statement.named_parameters
    missing = names - values.keys()
    if missing:
        raise RuleQueryError(f"no parameter or column is called ${min(missing)}")
    return {name: values[name] for name in names}


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _query_error(error: Exception) -> RuleQueryError:
    text, _, place = str(error).partition("\n\nLINE ")
    number = place.partition(":")[0]
    return RuleQueryError(" ".join(text.split()), int(number) if number.isdigit() else 1)
