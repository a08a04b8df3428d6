"""Whose work the operations of replayed graphs are, by the captures of the graphs: the tables captured_*."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from traceanalyzer.metrics import CAPTURED_TABLES, with_those_below
from traceanalyzer.query.empty import add_macros, add_pass_through, define_metric
from traceanalyzer.schema import canonical_tables, derived_tables

_SCRATCH = ("captured_places", "captured_chains", "captured_numbers")
_READS = ("captured_launches", "graph_launches", "graph_operators")
_SQL = Path(__file__).parent / "captured"
_HAS_CAPTURES = """
SELECT
    EXISTS (FROM canonical.host_slices WHERE contains(name, 'GraphLaunch') AND category IN ('runtime', 'driver'))
    AND (
        EXISTS (FROM canonical.capture_files)
        OR EXISTS (
            FROM canonical.host_slices
            WHERE contains(name, 'StreamBeginCapture') OR contains(name, ': capture_begin')
        )
    )
"""


def captured_work(connection: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    """Return the tables of captured work; they are empty where no graph is replayed, or none was captured.

    The connection holds canonical tables. It gets the metrics that compare graphs with captures, if it has none.
    """
    if not connection.execute(_HAS_CAPTURES).fetchall()[0][0]:
        return {name: derived_tables()[name].arrow_schema().empty_table() for name in CAPTURED_TABLES}
    if not connection.execute("FROM duckdb_views() WHERE view_name = 'graph_operators'").fetchall():
        add_pass_through(connection, "canonical", canonical_tables())
        add_macros(connection)
        for name in with_those_below(_READS):
            define_metric(connection, name, "VIEW")
    found: dict[str, pa.Table] = {}
    for name in CAPTURED_TABLES:  # in this order: the first numbers the calls of the second
        steps, _, query = (_SQL / f"{name}.sql").read_text(encoding="utf-8").rpartition(";\n")
        connection.execute(steps)
        found[name] = connection.sql(query).to_arrow_table()
    for name in _SCRATCH:
        connection.execute(f"DROP TABLE {name}")
    return found
