"""A DuckDB connection that knows a run: canonical tables, macros, attribution and metrics under their names.

Whose work the operations of replayed graphs are is known by the captures of the graphs: the tables captured_*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.metrics import CAPTURED_TABLES, metrics_in_order, sources_in, with_those_below, words_in
from traceanalyzer.metrics import metrics as metrics
from traceanalyzer.process import give_memory_back, interrupted_after
from traceanalyzer.query.canonical import (
    connect_canonical,
    copy_run,
    define_canonical,
    in_schema,
    insert,
    is_small,
    row_count,
    stored_bytes,
    those,
)
from traceanalyzer.query.empty import (
    add_macros,
    add_pass_through,
    define_not_computed,
    define_without_rows,
    metric_views,
)
from traceanalyzer.query.empty import connect_empty as connect_empty
from traceanalyzer.query.empty import define_metric as define_metric
from traceanalyzer.schema import TableSchema, canonical_tables
from traceanalyzer.schema import derived_tables as derived_tables
from traceanalyzer.store.inputs import NcuTable, StoredTrace
from traceanalyzer.text.visible import literal

if TYPE_CHECKING:
    from traceanalyzer.attribution.replay.bounds import ScansOf
    from traceanalyzer.attribution.tables import Matched, RankTables


_SCRATCH = ("captured_places", "captured_chains", "captured_numbers")
_READS = ("captured_launches", "graph_launches", "graph_operators")
_SQL = Path(__file__).parent / "captured"
_READ_FOR_CAPTURES = {"host_slices", "capture_files"}
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


def is_captured(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether graphs are replayed whose captures are there, too; the connection holds canonical tables."""
    return bool(connection.execute(_HAS_CAPTURES).fetchall()[0][0])


def _no_captured_work() -> dict[str, pa.Table]:
    return {name: derived_tables()[name].arrow_schema().empty_table() for name in CAPTURED_TABLES}


def captured_work(connection: duckdb.DuckDBPyConnection) -> dict[str, pa.Table]:
    """Return the tables of captured work; they are empty where no graph is replayed, or none was captured.

    The connection holds canonical tables. It gets the metrics that compare graphs with captures, if it has none.
    """
    if not is_captured(connection):
        return _no_captured_work()
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


# By the clock. The longest metric of a gigabyte takes a tenth of it.
METRIC_LIMIT_S = 120.0
# Files of so few rows take less time as copies in memory than opened again for each query: in all, 80 MB at most.
_MOST_ROWS_A_FILE, _MOST_COPIED_ROWS = 4_000, 500_000
# As Parquet, a fifteenth of the JSON. Rules have no disk and 4 GiB; `diagnose` of a gigabyte of JSON takes 0.8 in all.
_MOST_BYTES_IN_MEMORY = 200_000_000
_RELATIONS = "SELECT table_schema, table_name FROM information_schema.tables"


def connect(
    traces: Sequence[StoredTrace],
    derived: Path | None,
    database: Path | None = None,
    readers: Sequence[str] | None = None,
    replaced: Mapping[str, str] = MappingProxyType({}),
    ncu_tables: Sequence[NcuTable] = (),
    captures: Sequence[StoredTrace] = (),
    *,
    shared_later: bool = False,
) -> duckdb.DuckDBPyConnection:
    """Return a connection over stored traces, numbered in their order, and what lies beside them.

    Beside traces lie tables of Nsight Compute and captures of graphs.

    `derived` is the folder with the run's attribution tables as Parquet; without it the connection has neither these
    tables nor the metrics that read them, but for the tables of captured work, which are computed. `database` makes the
    connection a file instead of memory: the catalogue. `readers` are the texts that will read it, where they are known:
    then it has no other tables, and a metric that they read more than once is computed once. `replaced` are queries
    that take the place of metrics', by name. With `shared_later`, the metrics that readers share are left to the
    caller, but for runs so large that computing them may need the disk.
    """
    needed = named_in(readers)
    connection = connect_empty(database)
    if derived is not None and needed is not None and not (ncu_tables or captures) and is_small(traces, derived):
        copy_run(connection, traces, derived, needed)
    else:
        give_memory_back()
        is_read_once = needed is None or database is not None
        most_copied_rows = 0 if is_read_once else min(_MOST_ROWS_A_FILE * len(traces), _MOST_COPIED_ROWS)
        _define_views(connection, traces, derived, needed, ncu_tables, captures, most_copied_rows)
    for name in replaced:
        define_metric(connection, name, "VIEW", replaced)
    if not shared_later or stored_bytes(traces) > _MOST_BYTES_IN_MEMORY:
        compute_read(connection, readers)
    return connection


def _define_views(
    connection: duckdb.DuckDBPyConnection,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    needed: Set[str] | None,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace],
    most_copied_rows: int,
) -> None:
    """Put views of a run's files in the place of a connection's empty tables, and copies of small ones."""
    for schema, tables in (("canonical", canonical_tables()), ("attribution", derived_tables())):
        for name in tables:
            connection.execute(f"DROP TABLE {schema}.{name}")
    if derived is None and needed is not None:
        needed |= _READ_FOR_CAPTURES
    define_canonical(connection, traces, needed, ncu_tables, captures, most_copied_rows=most_copied_rows)
    if derived is None:
        _leave_attribution_out(connection)
        _add_captured_work(connection, traces, captures)
    else:
        add_attribution(connection, derived, needed, most_copied_rows)


def _leave_attribution_out(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the views that read attribution tables: what has none must not list them."""
    attributed = {name for name, metric in metrics().items() if metric.needs_attribution}
    for name in attributed | (derived_tables().keys() - metrics().keys()):
        connection.execute(f"DROP VIEW main.{name}")


def _add_captured_work(
    connection: duckdb.DuckDBPyConnection, traces: Sequence[StoredTrace], captures: Sequence[StoredTrace]
) -> None:
    """Compute the tables of captured work, which need no attribution, into a connection without attribution tables."""
    if is_captured(connection):
        with connect_canonical(traces, captures=captures) as own:
            found = captured_work(own)
    else:
        found = _no_captured_work()
    for name, rows in found.items():
        connection.execute(in_schema(derived_tables()[name], "attribution"))
        insert(connection, f"attribution.{name}", rows)
    add_pass_through(connection, "attribution", found)


def connect_unattributed(
    traces: Sequence[StoredTrace], ncu_tables: Sequence[NcuTable] = (), captures: Sequence[StoredTrace] = ()
) -> duckdb.DuckDBPyConnection:
    """Return a connection over stored traces with the macros and captured work, without other metrics."""
    connection = connect_canonical(traces, ncu_tables, captures=captures)
    connection.execute("CREATE SCHEMA attribution")
    add_pass_through(connection, "canonical", canonical_tables())
    add_macros(connection)
    _add_captured_work(connection, traces, captures)
    return connection


def compute_read(
    connection: duckdb.DuckDBPyConnection, readers: Sequence[str] | None, given: Set[str] = frozenset()
) -> None:
    """Turn the metrics that texts read more than once into tables: planning over one costs more than its rows."""
    for name in shared_metrics(name for text in readers or () for name in sources_in(text)):
        if name not in given:
            compute_once(connection, name)


def shared_metrics(read: Iterable[str], tables: Set[str] = frozenset()) -> list[str]:
    """Return the metrics that names read more than once, through other metrics too, each after those that it reads.

    A metric that is read more than once reads others once, as it is a table itself; those that are `tables` read none.
    """
    read_by = Counter(read)
    in_order = list(metrics_in_order().items())
    for name, metric in reversed(in_order):
        for other in () if name in tables else metric.reads:
            read_by[other] += min(read_by[name], 1)
    return [name for name, _ in in_order if read_by[name] > 1]


def compute_shared(connection: duckdb.DuckDBPyConnection, metric: str) -> None:
    """Make tables of metrics that another metric reads several times: DuckDB would plan each of them as often."""
    tables = metrics().keys() - metric_views(connection)
    for name in shared_metrics([metric], tables):
        if name not in tables:
            compute_once(connection, name)


def compute_derived(
    connection: duckdb.DuckDBPyConnection,
    options: AttributionOptions | None = None,
    matched: Matched | None = None,
    attributed: Callable[[Matched], Iterable[RankTables]] | None = None,
    folder: Path | None = None,
    scans_of: ScansOf | None = None,
) -> dict[str, pa.Table]:
    """Compute the attribution tables from the canonical tables of a connection, see `attribution.tables`."""
    from traceanalyzer.attribution.tables import compute

    options = options or AttributionOptions()
    tables = compute(connection, options, matched, attributed, folder, scans_of)
    tables = {**tables, **captured_work(connection)}
    return {name: _in_order(tables[name], table) for name, table in derived_tables().items() if name in tables}


def _in_order(rows: pa.Table, table: TableSchema) -> pa.Table:
    """Return rows with the columns of a table in its order; texts that are stored once each stay so."""
    rows = rows.select([column.name for column in table.columns])
    kept = {field.name for field in rows.schema if pa.types.is_dictionary(field.type)}
    fields = zip(rows.schema, table.arrow_schema(), strict=True)
    return rows.cast(pa.schema([own if own.name in kept else wanted for own, wanted in fields]))


def add_attribution(
    connection: duckdb.DuckDBPyConnection, derived: Path, needed: Set[str] | None = None, most_copied_rows: int = 0
) -> None:
    """Define the attribution tables as views of the files in a folder, but for those that are there.

    Tables of at most so many rows become copies.
    """
    there = {name for schema, name in connection.execute(_RELATIONS).fetchall() if schema == "attribution"}
    names = [name for name in those(derived_tables(), needed) if name not in there]
    for name in names:
        file = derived / f"{name}.parquet"
        kind = "TABLE" if most_copied_rows and row_count(file) <= most_copied_rows else "VIEW"
        connection.execute(f"CREATE {kind} attribution.{name} AS FROM read_parquet({literal(file)})")
    add_pass_through(connection, "attribution", names)


def compute_once(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Turn a metric from a view into a table, where several others read it and each would compute it again.

    One that takes longer than METRIC_LIMIT_S is not computed: reading it is an error that says so, and rules abstain.
    """
    try:
        with interrupted_after(METRIC_LIMIT_S, connection):
            has_rows = may_have_rows(connection, name)
            if has_rows:
                connection.execute(f"CREATE TABLE main.computed AS FROM main.{name}")
    except duckdb.InterruptException:
        define_not_computed(connection, name, METRIC_LIMIT_S)
        return
    connection.execute(f"DROP VIEW main.{name}")
    if has_rows:
        connection.execute(f"ALTER TABLE main.computed RENAME TO {name}")
    else:
        define_without_rows(connection, f"main.{name}", name)


def may_have_rows(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Tell whether there is what a metric has no row without; planning one over nothing takes as long as over a run."""
    needed = metrics()[name].empty_without
    return needed is None or bool(connection.execute(f"SELECT 1 FROM {needed} LIMIT 1").fetchall())


def named_in(texts: Sequence[str] | None) -> set[str] | None:
    """Return the words of texts, and of the metrics that they name in turn; extra words do no harm."""
    if texts is None:
        return None
    found: set[str] = set()
    waiting = set(words_in("\n".join(texts)))
    while waiting:
        found |= waiting
        waiting = {word for name in waiting & metrics().keys() for word in metrics()[name].words} - found
    return found
