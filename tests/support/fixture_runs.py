"""A connection over a simulated run and literal rows, as rule tests have it, for one test alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from traceanalyzer.query.engine import connect_empty
from tracesim.rule_tests import fill_fixture


def open_fixture(
    sim: Mapping[str, Any] | None,
    tables: Mapping[str, Any],
    readers: Sequence[str] | None = None,
    empty: duckdb.DuckDBPyConnection | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection that is filled as by `fill_fixture`: `empty`, or one of its own."""
    con = empty or connect_empty()
    fill_fixture(con, sim, tables, readers)
    return con
