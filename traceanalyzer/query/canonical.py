"""A DuckDB connection with the schema `canonical`: over the Parquet files of stored traces, or tables in memory.

A small run is copied into memory, and so are the small tables of a large one: opening and planning over their files
takes longer than their rows do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from traceanalyzer.schema import TableSchema, capture_tables, derived_tables, run_tables, trace_tables
from traceanalyzer.store.inputs import NcuTable, StoredTrace
from traceanalyzer.text.visible import literal, quoted

# The files of a trace that the tables of captures are read from.
_OF_CAPTURES = {"capture_slices": "host_slices", "capture_args": "event_args", "capture_ops": "gpu_ops"}


def connect_canonical(
    traces: Sequence[StoredTrace],
    ncu_tables: Sequence[NcuTable] = (),
    needed: Set[str] | None = None,
    captures: Sequence[StoredTrace] = (),
) -> duckdb.DuckDBPyConnection:
    """Return a connection over the canonical tables of stored traces, all or those needed.

    Traces are numbered in their order. `ncu_tables` are tables that lie beside the traces, `captures` are traces of
    launches that were recorded into graphs.
    """
    connection = new_connection(None)
    connection.execute("CREATE SCHEMA canonical")
    define_canonical(connection, traces, needed, ncu_tables, captures)
    return connection


def define_canonical(
    connection: duckdb.DuckDBPyConnection,
    traces: Sequence[StoredTrace],
    needed: Set[str] | None,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace] = (),
    *,
    most_copied_rows: int = 0,
) -> None:
    """Define the tables of `connect_canonical`, all or those needed, in a connection that has an empty schema.

    Tables of at most so many rows become copies, others views.
    """
    _define(connection, dict(enumerate(traces)), needed, most_copied_rows=most_copied_rows)
    for name in those(run_tables(), needed):
        connection.execute(_ncu_view(run_tables()[name], ncu_tables))
    numbered = dict(enumerate(captures, len(traces)))
    listed = _listed(captures)
    for name in those(capture_tables(), needed):
        table = capture_tables()[name]
        if name in _OF_CAPTURES:
            connection.execute(_stored_table(table, numbered, listed, _OF_CAPTURES[name]))
        else:
            connection.execute(in_schema(table, "canonical"))
            _insert_captures(connection, numbered)


class FewTracesConnections:
    """Connections that each hold one trace of a run at a time, or a few small ones, for the threads of a pool.

    A connection is used again for other traces: opening one takes seven times as long. Small traces are copied into
    memory, many in one statement: planning over the files of each takes longer than its rows do.
    """

    def __init__(self, traces: Mapping[int, StoredTrace], needed: Set[str] | None = None) -> None:
        self._traces = traces
        self._needed = needed
        self._free: dict[bool, list[duckdb.DuckDBPyConnection]] = {False: [], True: []}  # by whether they hold copies

    def groups(self, trace_ids: Sequence[int], most: int) -> list[list[int]]:
        """Return the numbers of traces, in their order, in groups of at most so many small traces, or of one other."""
        groups: list[list[int]] = []
        of_small = 0
        for trace_id in trace_ids:
            small = is_small([self._traces[trace_id]])
            if small and 0 < of_small < most:
                groups[-1].append(trace_id)
            else:
                groups.append([trace_id])
                of_small = 0
            of_small += small
        return groups

    @contextmanager
    def holding(self, trace_ids: Sequence[int]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection that holds the traces of a group, under their numbers in the run."""
        copied = len(trace_ids) > 1
        try:
            connection = self._free[copied].pop()
        except IndexError:
            connection = new_connection(None)
            connection.execute("CREATE SCHEMA canonical")
        traces = {number: self._traces[number] for number in trace_ids}
        _define(connection, traces, self._needed, most_copied_rows=sys.maxsize if copied else 0)
        yield connection
        self._free[copied].append(connection)

    def close(self) -> None:
        for connections in self._free.values():
            while connections:
                connections.pop().close()


def new_connection(database: Path | None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(database) if database else ":memory:")
    # Every view and every query reads the footers of the same files.
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def _define(
    connection: duckdb.DuckDBPyConnection,
    traces: Mapping[int, StoredTrace],
    needed: Set[str] | None,
    *,
    most_copied_rows: int,
) -> None:
    """Define the canonical tables of traces over these, by their numbers, and over no others, as views or as copies."""
    # Where rows are estimated as few, a loop over all pairs of them would be chosen. Of small runs, it is quick.
    connection.execute("SET asof_loop_join_threshold = 0")
    listed = _listed(traces.values())
    for name in those(trace_tables(), needed):
        table = trace_tables()[name]
        if name == "traces":
            connection.execute(in_schema(table, "canonical").replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
            insert_traces(connection, traces)
        else:
            connection.execute(_stored_table(table, traces, listed, most_copied_rows=most_copied_rows))


def those(names: Iterable[str], needed: Set[str] | None) -> list[str]:
    """Return the names that are needed; None needs all."""
    return [name for name in names if needed is None or name in needed]


def in_schema(table: TableSchema, schema: str) -> str:
    return table.sql.replace(f"CREATE TABLE {table.name} (", f"CREATE TABLE {schema}.{table.name} (")


def insert(connection: duckdb.DuckDBPyConnection, target: str, rows: pa.Table) -> None:
    """Insert rows into a table, by the names of their columns."""
    if not rows.num_rows:
        return
    connection.register("incoming_rows", rows)
    connection.execute(f"INSERT INTO {target} BY NAME FROM incoming_rows")
    connection.unregister("incoming_rows")


def insert_traces(connection: duckdb.DuckDBPyConnection, traces: Mapping[int, StoredTrace]) -> None:
    """Fill the table of traces: in one statement, as each one waits for the disk where the connection is a file."""
    if not traces:
        return
    # In SQL, because Arrow imports pandas (a fifth of a second) to make a column of Python values.
    connection.execute(
        """
        INSERT INTO canonical.traces BY NAME
        SELECT
            ($trace_ids::INTEGER[])[nth] AS trace_id,
            * EXCLUDE (nth) REPLACE (
                ($traces::VARCHAR[])[nth] AS trace,
                ($paths::VARCHAR[])[nth] AS path,
                ($ranks::INTEGER[])[nth] AS rank,
                ($rank_sources::VARCHAR[])[nth] AS rank_source
            )
        FROM (SELECT *, CAST(file_index AS BIGINT) + 1 AS nth FROM read_parquet($files))
        ORDER BY nth
        """,
        {
            "trace_ids": list(traces),
            "traces": [stored.trace for stored in traces.values()],
            "paths": [str(stored.path) for stored in traces.values()],
            "ranks": [stored.rank for stored in traces.values()],
            "rank_sources": [stored.rank_source for stored in traces.values()],
            "files": [str(stored.folder / "traces.parquet") for stored in traces.values()],
        },
    )


def _insert_captures(connection: duckdb.DuckDBPyConnection, captures: Mapping[int, StoredTrace]) -> None:
    for number, stored in captures.items():
        row = [number, stored.trace, str(stored.path), stored.rank]
        connection.execute("INSERT INTO canonical.capture_files VALUES (?, ?, ?, ?)", row)


def _stored_table(
    table: TableSchema,
    traces: Mapping[int, StoredTrace],
    listed: Mapping[Path, Sequence[str]],
    stored_as: str | None = None,
    *,
    most_copied_rows: int = 0,
) -> str:
    """Return the statement that puts a table over every trace's files of it, with the trace's number in front."""
    files = _parts(listed, stored_as or table.name)
    is_copied = most_copied_rows and row_count(*files) <= most_copied_rows
    kind = "TABLE" if is_copied else "VIEW"
    if not files:
        return _empty_view(table).replace("VIEW", kind, 1)
    return f"CREATE OR REPLACE {kind} canonical.{table.name} AS {numbered_rows(table, traces, files)}"


def _listed(traces: Iterable[StoredTrace]) -> dict[Path, list[str]]:
    """Return the names of the files in the folders of traces, in their order: listed once, and not for each table."""
    return {stored.folder: sorted(file.name for file in stored.folder.iterdir()) for stored in traces}


def _parts(listed: Mapping[Path, Sequence[str]], name: str) -> list[Path]:
    """Return the Parquet files of a table in folders, in their order."""
    return [
        folder / file
        for folder, files in listed.items()
        for file in files
        if file.startswith(name) and file.endswith(".parquet")
    ]


def numbered_rows(table: TableSchema, traces: Mapping[int, StoredTrace], files: Sequence[Path]) -> str:
    """Return the query of a table's rows in files of traces, with the trace's number put in front."""
    columns = ", ".join(f'"{column.name}"' for column in table.columns if column.name != table.key)
    # Named one by one: a folder's own name may hold what is a wildcard in a pattern.
    listed = ", ".join(map(literal, files))
    if len(traces) == 1:
        trace_id, source = str(*traces), f"read_parquet([{listed}])"
    else:
        # DuckDB binds one scan of many files in a third of a union's time, and reads no file of other traces.
        numbers = ", ".join(f"{literal(stored.folder)}: {number}" for number, stored in traces.items())
        trace_id = f"MAP {{{numbers}}}[parse_dirpath(filename)]"
        source = f"read_parquet([{listed}], filename = true)"
    return f"SELECT CAST({trace_id} AS INTEGER) AS {table.key}, {columns} FROM {source}"


def _ncu_view(table: TableSchema, ncu_tables: Sequence[NcuTable]) -> str:
    """Return the view of a table over the Parquet files of tables of Nsight Compute, with their names put in front."""
    files = " UNION ALL ".join(
        f"SELECT {quoted(stored.file)} AS {table.key}, * FROM read_parquet({literal(file)})"
        for stored in ncu_tables
        if (file := stored.folder / f"{table.name}.parquet").is_file()
    )
    if not files:
        return _empty_view(table)
    return f"CREATE OR REPLACE VIEW canonical.{table.name} AS {files}"


def _empty_view(table: TableSchema) -> str:
    empty = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in table.columns)
    return f"CREATE OR REPLACE VIEW canonical.{table.name} AS SELECT {empty} LIMIT 0"


MOST_TRACES = 8
# As Parquet, a fifteenth of the JSON. A trace of 10 MB of JSON (0.7 MB) gains, two of 35 and 56 MB gained nothing.
MOST_BYTES = 1_000_000
# What these win over some thousand rows is less than what they cost for every query. The order of joins, which can
# make a query quadratic, is always looked for.
_LEFT_OUT = (
    "build_side_probe_side",
    "common_subexpressions",
    "common_subplan",
    "duplicate_groups",
    "join_elimination",
    "join_filter_pushdown",
    "outer_join_simplification",
    "projection_pullup",
    "redundant_order_keys",
    "statistics_propagation",
    "type_pushdown",
)


def is_small(traces: Sequence[StoredTrace], *derived: Path) -> bool:
    """Tell whether the tables of traces, and what is derived from them, are worth copying into memory."""
    return len(traces) <= MOST_TRACES and stored_bytes(traces, *derived) <= MOST_BYTES


def stored_bytes(traces: Sequence[StoredTrace], *derived: Path) -> int:
    folders = (*derived, *(stored.folder for stored in traces))
    return sum(file.stat().st_size for folder in folders for file in folder.glob("*.parquet"))


def copy_run(
    connection: duckdb.DuckDBPyConnection, traces: Sequence[StoredTrace], derived: Path, needed: Set[str]
) -> None:
    """Copy the needed tables of a run into those of an empty connection (`connect_empty`), and plan with less care."""
    connection.execute(f"SET disabled_optimizers = '{','.join(_LEFT_OUT)}'")
    numbered = dict(enumerate(traces))
    listed = _listed(traces)
    insert_traces(connection, numbered)
    for name in those(trace_tables(), needed - {"traces"}):
        if files := _parts(listed, name):
            rows = numbered_rows(trace_tables()[name], numbered, files)
            connection.execute(f"INSERT INTO canonical.{name} BY NAME {rows}")
    for name in those(derived_tables(), needed):
        file = derived / f"{name}.parquet"
        if row_count(file):
            connection.execute(f"INSERT INTO attribution.{name} BY NAME FROM read_parquet({literal(file)})")


def row_count(*files: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)
