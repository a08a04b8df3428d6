"""A connection over canonical tables in memory, as the simulator and tests make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cache

import duckdb
import pyarrow as pa

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.query.canonical import insert, those
from traceanalyzer.query.empty import connect_empty
from traceanalyzer.query.engine import compute_derived, compute_read, named_in
from traceanalyzer.schema import canonical_tables, derived_tables


def connect_tables(
    tables: Mapping[str, pa.Table],
    options: AttributionOptions | None = None,
    readers: Sequence[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection over canonical tables in memory; tables that are not given are empty.

    `readers` are the texts that will be asked, where they are known: a metric that they read more than once is computed
    once.
    """
    connection = connect_empty()
    _insert_all(connection, "canonical", tables)
    _insert_all(connection, "attribution", compute_derived(connection, options))
    compute_read(connection, readers)
    return connection


def fill(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[str, pa.Table],
    derived: Mapping[str, pa.Table],
    readers: Sequence[str] | None,
    given: Set[str] = frozenset(),
) -> None:
    """Put the rows that `readers` read into an empty connection (`connect_empty`).

    `derived` are the attribution tables (`derive`). `given` are metrics that the caller fills.
    """
    needed = named_in(readers)
    _insert_all(connection, "canonical", tables, needed)
    _insert_all(connection, "attribution", derived, needed)
    compute_read(connection, readers, given=given)


def derive(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the attribution tables of canonical tables in memory."""
    with undone(_scratch()) as connection:
        _insert_all(connection, "canonical", tables)
        return compute_derived(connection)


@contextmanager
def undone(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Undo all changes to a connection made in the body, for its next user."""
    connection.begin()
    try:
        yield connection
    finally:
        connection.rollback()


@cache
def _scratch() -> duckdb.DuckDBPyConnection:
    return connect_empty()


def _insert_all(
    connection: duckdb.DuckDBPyConnection, schema: str, tables: Mapping[str, pa.Table], needed: Set[str] | None = None
) -> None:
    known = canonical_tables() if schema == "canonical" else derived_tables()
    unknown = tables.keys() - known.keys()
    if unknown:
        raise KeyError(f"no {schema} table: {', '.join(sorted(unknown))}")
    for name in those(tables, needed):
        insert(connection, f"{schema}.{name}", tables[name])
