"""A connection begins as a copy of a database that has every table, macro and metric with its comments, and no rows.

Binding all metrics takes over ten times as long as copying them, so the database is made once for each version and kept
in the cache of the user. Where it cannot be kept, each connection defines everything itself.

What a connection defines over its tables: macros, metrics, and tables under their names without a schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import duckdb

from traceanalyzer.metrics import macro_files, metrics, metrics_in_order, pattern_macros
from traceanalyzer.query.canonical import in_schema, new_connection
from traceanalyzer.schema import canonical_tables, derived_tables
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.owner import kept_in_cache
from traceanalyzer.text.visible import literal, quoted

_UNDOCUMENTED = """
SELECT schema_name, table_name, 'TABLE' FROM duckdb_tables() WHERE comment IS NULL
UNION ALL
SELECT schema_name, view_name, 'VIEW' FROM duckdb_views() WHERE comment IS NULL AND NOT internal
"""
_MADE_BY = ("schema", "metrics", "macros", "query/canonical.py", "query/empty.py", "text/visible.py")
NOT_COMPUTED = "was not computed, as it takes longer than"


def add_macros(connection: duckdb.DuckDBPyConnection) -> None:
    for text in (macro_files() | pattern_macros()).values():
        connection.execute(text)


def define_metric(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    kind: Literal["TABLE", "VIEW"],
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Define one metric, after those that it reads; raise ValueError with its name where its query is wrong."""
    query = replaced.get(name, metrics_in_order()[name].sql)
    try:
        connection.execute(f"CREATE OR REPLACE {kind} main.{name} AS {query}")
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as error:
        raise ValueError(f"metric {name}: {error}") from error


def metric_views(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the metrics of a connection that are no tables."""
    of_metrics = "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    return {name for (name,) in connection.execute(of_metrics).fetchall()}


def define_without_rows(
    connection: duckdb.DuckDBPyConnection, table: str, name: str, kind: Literal["TABLE", "TEMP TABLE"] = "TABLE"
) -> None:
    """Define a table with the columns of a metric that has no rows."""
    columns = ", ".join(f'"{column.name}" {column.type}' for column in metrics()[name].columns)
    connection.execute(f"CREATE {kind} {table} ({columns})")


def define_not_computed(connection: duckdb.DuckDBPyConnection, name: str, limit_s: float) -> None:
    """Define a metric whose rows could not be had in time: every query of it fails with these words."""
    why = f"'the metric {name} {NOT_COMPUTED} {limit_s:g} s'"
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in metrics()[name].columns)
    connection.execute(
        f"CREATE OR REPLACE VIEW main.{name} AS SELECT {columns} FROM range(1) WHERE error({why}) IS NULL"
    )


def add_pass_through(connection: duckdb.DuckDBPyConnection, schema: str, names: Iterable[str]) -> None:
    """Let queries name tables without their schema, except where a metric has the same name."""
    for name in names:
        if name not in metrics():
            connection.execute(f"CREATE OR REPLACE VIEW main.{name} AS FROM {schema}.{name}")


def add_comments(connection: duckdb.DuckDBPyConnection) -> None:
    """Copy the descriptions of tables, metrics and columns into a database, where it has none yet."""
    kinds = {(schema, name): kind for schema, name, kind in connection.execute(_UNDOCUMENTED).fetchall()}
    documented = [("canonical", t.name, t.comment, t.columns) for t in canonical_tables().values()]
    documented += [("attribution", t.name, t.comment, t.columns) for t in derived_tables().values()]
    documented += [("main", metric.name, metric.text, metric.columns) for metric in metrics().values()]
    statements = ["BEGIN"]  # one write for all instead of one each
    for schema, name, comment, columns in documented:
        if (kind := kinds.get((schema, name))) is None:
            continue
        statements.append(f"COMMENT ON {kind} {schema}.{name} IS {quoted(comment)}")
        for column in columns:
            statements.append(f"COMMENT ON COLUMN {schema}.{name}.{column.name} IS {quoted(column.comment)}")
    connection.execute(";\n".join([*statements, "COMMIT"]))


def connect_empty(database: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own over every table, macro and metric, all without rows.

    `database` makes the connection a file instead of memory. Raises ValueError where a metric's query is wrong.
    """
    connection = new_connection(database)
    kept = _kept_database()
    if kept is None or not _copied(kept, connection):
        _define_everything(connection)
    return connection


def _copied(kept: Path, connection: duckdb.DuckDBPyConnection) -> bool:
    """Copy the kept database into a connection; tell whether that worked, and remove a database that is damaged."""
    (own,) = connection.execute("SELECT current_database()").fetchall()[0]
    try:
        connection.execute(f"ATTACH {literal(kept)} AS empty (READ_ONLY)")
    except duckdb.Error:
        with suppress(OSError):
            kept.unlink()
        return False
    connection.execute(f'COPY FROM DATABASE empty TO "{own}" (SCHEMA)')
    connection.execute("DETACH empty")
    return True


def _define_everything(connection: duckdb.DuckDBPyConnection) -> None:
    for schema, tables in (("canonical", canonical_tables()), ("attribution", derived_tables())):
        connection.execute(f"CREATE SCHEMA {schema}")
        for table in tables.values():
            connection.execute(in_schema(table, schema))
        add_pass_through(connection, schema, tables)
    add_macros(connection)
    for name in metrics_in_order():
        define_metric(connection, name, "VIEW")


def _kept_database() -> Path | None:
    """Return the database of this version in the user's cache, made when it is not there; None where it cannot be."""

    def write(fresh: Path) -> None:
        with duckdb.connect(fresh) as database:
            _define_everything(database)
            add_comments(database)

    try:
        return kept_in_cache("empty", _version(), ".duckdb", write)
    except duckdb.Error:
        return None


def _version() -> str:
    """Return a hash of the code that decides what the database defines, and of what reads it."""
    return hashlib.blake2b((engine_key(_MADE_BY) + duckdb.__version__).encode(), digest_size=8).hexdigest()
