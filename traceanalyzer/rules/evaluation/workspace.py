"""Prepares a connection for rules: the table `bound`, costly metrics computed once, and everything locked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from pathlib import Path

import duckdb

from traceanalyzer.query import engine
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.rules.schema import rule_tables
from traceanalyzer.rules.sql import read_all_queries

# What evaluation itself reads: its SQL, and what requirements are made of.
_OWN_SQL = "\n".join(
    [
        "FROM capabilities",
        "attribution.lead_events",
        "attribution.lead_costs",
        "attribution.lead_needs",
        "attribution.collective_members",
        *read_all_queries(),
    ]
)
_PARQUET = re.compile(r"'((?:[^']|'')*\.parquet)'")

# Filled for each rule in turn: rules are evaluated one after the other.
BOUND_TABLE = rule_tables()["bound"].sql.replace("CREATE TABLE", "CREATE OR REPLACE TEMP TABLE")


def open_workspace(con: duckdb.DuckDBPyConnection, rules: Iterable[Rule] | None = None) -> duckdb.DuckDBPyConnection:
    """Return a separate connection for rules over the same tables and metrics, which it can read and nothing else.

    With `rules` it holds no more than what they read. Temporary tables of `con` hide what they hide there: that is how
    tests replace tables.
    """
    asking = None if rules is None else readers(rules)
    needed = engine.named_in(asking)
    own = duckdb.connect()
    for schema in ("canonical", "attribution"):
        own.execute(f"CREATE SCHEMA {schema}")
    _copy_tables(con, own, needed, temporary=False)
    engine.add_macros(own)
    _copy_views(con, own, needed)
    engine.add_metrics(own, readers=asking)
    _copy_tables(con, own, needed, temporary=True)
    return locked_workspace(own)


def locked_workspace(own: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return the connection, which was opened for rules alone, with the table `bound` and locked for good."""
    if not _has_temporary(own, "bound"):
        own.execute(BOUND_TABLE)
    sandbox.lock(own, _folders_read(own))
    return own


def readers(rules: Iterable[Rule]) -> list[str]:
    """Return the SQL texts that read the connection: evaluation's own, and each rule's."""
    return [_OWN_SQL, *("\n".join(_sql_of(rule)) for rule in rules)]


def _copy_tables(
    con: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, needed: Set[str] | None, *, temporary: bool
) -> None:
    tables = con.execute(
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE temporary = $1", [temporary]
    ).fetchall()
    for database, schema, name in tables:
        if needed is not None and name not in needed:
            continue
        rows = con.sql(f'FROM "{database}"."{schema}"."{name}"').to_arrow_table()
        own.register("copied_rows", rows)
        target = f'TEMP TABLE "{name}"' if temporary else f'TABLE "{schema}"."{name}"'
        own.execute(f"CREATE {target} AS FROM copied_rows")
        own.unregister("copied_rows")


def _copy_views(con: duckdb.DuckDBPyConnection, own: duckdb.DuckDBPyConnection, needed: Set[str] | None) -> None:
    """Define the views of a connection in another, except metrics, each after those that it reads."""
    views = con.execute(
        "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal AND NOT temporary ORDER BY view_oid"
    ).fetchall()
    for schema, name, sql in views:
        if (schema != "main" or name not in engine.metrics()) and (needed is None or name in needed):
            own.execute(sql)


def _folders_read(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the folders of the Parquet files behind a connection's views: all that rules may touch on disk."""
    texts = con.execute("SELECT sql FROM duckdb_views() WHERE NOT internal").fetchall()
    files = [path.replace("''", "'") for (text,) in texts for path in _PARQUET.findall(text)]
    return tuple(sorted({str(Path(path).resolve().parent) for path in files}))


def _sql_of(rule: Rule) -> Iterable[str]:
    yield rule.select
    yield rule.when
    yield rule.severity
    yield rule.op_saving or ""
    yield rule.claims.where or ""
    yield rule.claims.compute_ops or ""
    yield from (item.when for item in rule.abstain)
    yield from (item.when for item in rule.lower)
    yield from (item.when or "" for item in rule.fixes)
    yield from (item.select for item in rule.evidence)


def _has_temporary(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    return bool(con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = $1 AND temporary", [name]).fetchall())
