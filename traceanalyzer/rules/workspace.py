"""Prepares a connection for rules: a table for each rule's bound, costly metrics computed once, everything locked."""

from __future__ import annotations

import re
from collections.abc import Iterable

import duckdb

from traceanalyzer import engine
from traceanalyzer.rules import sandbox
from traceanalyzer.rules.model import Rule

# One row per device: what the rule being evaluated would save, and the time that its claims select. Filled for each
# rule in turn, so a rule's select reads it as `bound`.
BOUND_TABLE = """
CREATE OR REPLACE TEMP TABLE bound (
    trace             VARCHAR,
    rank              INTEGER,
    device            INTEGER,
    trace_id          INTEGER,
    window_ns         BIGINT,
    step_count        INTEGER,
    step_ms           DOUBLE,
    launch_link_share DOUBLE,
    mode              VARCHAR,
    bound_ns          BIGINT,
    bound_share       DOUBLE,
    saving_sum_ns     BIGINT,
    claimed_ns        BIGINT,
    claimed_share     DOUBLE,
    claimed_count     BIGINT,
    resolved_share    DOUBLE,
    ms_per_step       DOUBLE,
    step_share        DOUBLE,
    worst_ms          DOUBLE,
    worst_step        BIGINT
)
"""


def open_workspace(con: duckdb.DuckDBPyConnection, rules: Iterable[Rule] = ()) -> duckdb.DuckDBPyConnection:
    """Take over a connection of the engine for rules: afterwards it reads its own tables and nothing else.

    Metrics that the rules name are computed once, into temporary tables, which hide the views of the same name.
    """
    con.execute(BOUND_TABLE)
    for name in _metrics_named(rules):
        if not _is_table(con, name):
            con.execute(f'CREATE TEMP TABLE "{name}" AS FROM main."{name}"')
    sandbox.lock(con)
    return con


def _metrics_named(rules: Iterable[Rule]) -> list[str]:
    texts = [text for rule in rules for text in _sql_of(rule)]
    words = set(re.findall(r"[a-z_]\w*", " ".join(texts)))
    # Claims on kernels and requirements read these two for every rule.
    return sorted((words | {"capabilities", "kernel_class"}) & engine.metrics().keys())


def _sql_of(rule: Rule) -> Iterable[str]:
    yield rule.select
    yield rule.op_saving or ""
    yield from (item.select for item in rule.evidence)


def _is_table(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    found = con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = $1 AND temporary", [name]).fetchone()
    return found is not None
