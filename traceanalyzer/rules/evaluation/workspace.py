"""Prepares a connection for rules: the table `bound`, costly metrics computed once, and everything locked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import duckdb

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


def lock_workspace(con: duckdb.DuckDBPyConnection) -> None:
    """Give a connection the table `bound`, and lock it for good: rules read its tables and nothing else."""
    if not _has_temporary(con, "bound"):
        con.execute(BOUND_TABLE)
    if not sandbox.is_locked(con):
        sandbox.lock(con, _folders_read(con))


def readers(rules: Iterable[Rule]) -> list[str]:
    """Return the SQL texts that read the connection: evaluation's own, and each rule's."""
    return [_OWN_SQL, *("\n".join(_sql_of(rule)) for rule in rules)]


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
