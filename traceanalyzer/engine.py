"""A DuckDB connection that knows a run: canonical tables, macros, attribution and metrics under their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from traceanalyzer.schema import Column, Table, canonical_tables, load_tables

if TYPE_CHECKING:
    from traceanalyzer.attribution import AttributionOptions

_PACKAGE = Path(__file__).parent
_COLUMN = re.compile(r"^--   (?P<name>\w+) +(?P<type>[A-Z]+) +(?P<comment>.+)$")
_WORD = re.compile(r"[a-z_]\w*")
# What follows FROM or JOIN, and the tables that macros are given by name.
_READ = re.compile(r"\b(?:from|join)\s+([a-z_]\w*)\b(?!\.)|\('([a-z_]\w*)'")
_MORE = re.compile(r"^--    +(?P<comment>\S.*)$")
_RELATIONS = "SELECT table_schema, table_name FROM information_schema.tables"
ATTRIBUTION_FOLDER = _PACKAGE / "attribution"


@dataclass(frozen=True)
class Metric:
    """One documented SELECT: what a row is, what its words mean, its columns with type and meaning."""

    name: str
    summary: str
    text: str
    columns: tuple[Column, ...]
    sql: str


@dataclass(frozen=True)
class StoredTrace:
    """One trace's folder of Parquet files and what its run says about it."""

    folder: Path
    trace: str
    path: Path
    rank: int | None
    rank_source: str | None


def parse_metric(path: Path) -> Metric:
    """Read a metric file: its header names every column that its SELECT returns."""
    lines = path.read_text().splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    header = lines[:end]
    if "-- columns:" not in header:
        raise ValueError(f"{path}: the header lists no columns")
    start = header.index("-- columns:")
    prose = [line.removeprefix("--").strip() for line in header[:start]]
    columns: list[Column] = []
    for line in header[start + 1 :]:
        if match := _COLUMN.match(line):
            columns.append(Column(match["name"], match["type"], False, match["comment"].strip()))
        elif (more := _MORE.match(line)) and columns:
            last = columns.pop()
            columns.append(Column(last.name, last.type, False, f"{last.comment} {more['comment'].strip()}"))
        elif line.strip("- "):
            raise ValueError(f"{path}: not a column line: {line!r}")
    summary = " ".join(prose[: prose.index("")]) if "" in prose else " ".join(prose)
    text = "\n".join(prose).strip()
    return Metric(path.stem, summary, text, tuple(columns), "\n".join(lines[end:]).strip())


@cache
def metrics() -> dict[str, Metric]:
    """Return every metric by name."""
    return {path.stem: parse_metric(path) for path in sorted((_PACKAGE / "metrics").glob("*.sql"))}


def derived_tables() -> dict[str, Table]:
    """Return the tables that attribution computes, by name."""
    return load_tables(ATTRIBUTION_FOLDER)


def connect_tables(
    tables: Mapping[str, pa.Table],
    options: AttributionOptions | None = None,
    readers: Sequence[str] | None = None,
    derived: Mapping[str, pa.Table] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection over canonical tables in memory; tables that are not given are empty.

    `readers` are the texts that will be asked, where they are known: see `add_metrics`. `derived` are the attribution
    tables where they are known (`derive`): then nothing is filled that `readers` do not name.
    """
    needed = None if derived is None else named_in(readers)
    connection = _connect_given(tables, needed)
    if derived is None:
        derived = compute_derived(connection, options)
    connection.execute("CREATE SCHEMA attribution")
    names = _those(derived_tables(), needed)
    for name in names:
        connection.execute(_in_schema(derived_tables()[name], "attribution"))
        _insert(connection, f"attribution.{name}", derived[name])
    _add_pass_through(connection, "canonical", _those(canonical_tables(), needed))
    _add_pass_through(connection, "attribution", names)
    add_macros(connection)
    add_metrics(connection, readers=readers)
    return connection


def derive(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the attribution tables of canonical tables in memory."""
    return compute_derived(_connect_given(tables))


def _connect_given(tables: Mapping[str, pa.Table], needed: Set[str] | None = None) -> duckdb.DuckDBPyConnection:
    unknown = tables.keys() - canonical_tables().keys()
    if unknown:
        raise KeyError(f"no canonical table: {', '.join(sorted(unknown))}")
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA canonical")
    for name in _those(canonical_tables(), needed):
        connection.execute(_in_schema(canonical_tables()[name], "canonical"))
        if name in tables:
            _insert(connection, f"canonical.{name}", tables[name])
    return connection


def connect(
    traces: Sequence[StoredTrace],
    derived: Path | None,
    database: Path | None = None,
    readers: Sequence[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection over stored traces, numbered in their order.

    `derived` is the folder with the run's attribution tables as Parquet; without it there are none, nor metrics that
    build on them. `database` makes the connection a file instead of memory: the catalogue. `readers` are the texts that
    will be asked, where they are known: see `add_metrics`.
    """
    needed = named_in(readers)
    connection = connect_unattributed(traces, database, needed)
    if derived is not None:
        add_attribution(connection, derived, needed)
    add_metrics(connection, with_attribution=derived is not None, readers=readers)
    return connection


def connect_unattributed(
    traces: Sequence[StoredTrace], database: Path | None = None, needed: Set[str] | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a connection over stored traces with the macros, but without attribution and metrics."""
    connection = connect_canonical(traces, database, needed)
    connection.execute("CREATE SCHEMA attribution")
    _add_pass_through(connection, "canonical", _those(canonical_tables(), needed))
    add_macros(connection)
    return connection


def add_attribution(connection: duckdb.DuckDBPyConnection, derived: Path, needed: Set[str] | None = None) -> None:
    """Define the attribution tables as views of the files in a folder."""
    names = _those(derived_tables(), needed)
    for name in names:
        connection.execute(
            f"CREATE VIEW attribution.{name} AS FROM read_parquet({literal(derived / f'{name}.parquet')})"
        )
    _add_pass_through(connection, "attribution", names)


def connect_canonical(
    traces: Sequence[StoredTrace],
    database: Path | None = None,
    needed: Set[str] | None = None,
    *,
    only: int | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection over the canonical tables of stored traces alone: what attribution is computed from.

    With `only`, over one of them, which keeps its number.
    """
    connection = duckdb.connect(str(database) if database else ":memory:")
    numbered = {number: stored for number, stored in enumerate(traces) if only is None or number == only}
    # Every view and every query reads the footers of the same files.
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("CREATE SCHEMA canonical")
    for name in _those(canonical_tables(), needed):
        table = canonical_tables()[name]
        if name == "traces":
            connection.execute(_in_schema(table, "canonical"))
            for trace_id, stored in numbered.items():
                _insert_trace(connection, trace_id, stored)
        else:
            connection.execute(_stored_view(table, numbered))
    return connection


def compute_derived(
    connection: duckdb.DuckDBPyConnection,
    options: AttributionOptions | None = None,
    traces: Sequence[StoredTrace] = (),
) -> dict[str, pa.Table]:
    """Compute the attribution tables from the canonical tables of a connection, over `traces` where they are stored."""
    from traceanalyzer import attribution

    tables = attribution.compute(
        connection,
        options or attribution.AttributionOptions(),
        (lambda trace_id: connect_canonical(traces, only=trace_id)) if len(traces) > 1 else None,
    )
    return {
        name: tables[name].select([c.name for c in table.columns]).cast(table.arrow_schema())
        for name, table in derived_tables().items()
    }


def add_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros."""
    _define(connection, {path.stem: path.read_text() for path in sorted((_PACKAGE / "macros").glob("*.sql"))})


def add_metrics(
    connection: duckdb.DuckDBPyConnection, *, with_attribution: bool = True, readers: Sequence[str] | None = None
) -> None:
    """Define every metric as a view; without attribution those that can do without.

    Where the texts that will read them are known: those metrics alone that they name, and what these build on. One
    that they read more than once becomes a table, for planning a query over it costs more than its rows.
    """
    read_by = Counter(name for text in readers or () for name in _read_in(text))
    names = after_what_they_read(_those(metrics(), named_in(readers)))
    kinds = {name: "TABLE" if read_by[name] > 1 else "VIEW" for name in names}
    statements = {
        name: f"CREATE OR REPLACE {kind} main.{name} AS {metrics()[name].sql}" for name, kind in kinds.items()
    }
    _define(connection, statements, all_of_them=with_attribution)


def after_what_they_read(names: Sequence[str]) -> list[str]:
    """Return metrics and what they build on, each after what it reads."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        for other in sorted(reads(name)):
            add(other)
        ordered[name] = None

    for name in names:
        add(name)
    return list(ordered)


@cache
def reads(name: str) -> frozenset[str]:
    """Return the metrics that a metric's query reads itself."""
    return frozenset(_read_in(metrics()[name].sql)) & metrics().keys() - {name}


@cache
def needs_attribution(name: str) -> bool:
    """Tell whether a metric's query, or one that it builds on, may read attribution tables."""
    return bool((named_in([metrics()[name].sql]) or set()) & derived_tables().keys())


def _read_in(text: str) -> list[str]:
    return [plain or quoted for plain, quoted in _READ.findall(text.lower())]


def named_in(texts: Sequence[str] | None) -> set[str] | None:
    """Return the words of texts, and of the metrics that they name in turn; a word too many does no harm."""
    if texts is None:
        return None
    found: set[str] = set()
    waiting = _words("\n".join(texts))
    while waiting:
        found |= waiting
        waiting = {word for name in waiting & metrics().keys() for word in _words(metrics()[name].sql)} - found
    return found


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _those(names: Iterable[str], needed: Set[str] | None) -> list[str]:
    return [name for name in names if needed is None or name in needed]


def _define(connection: duckdb.DuckDBPyConnection, statements: Mapping[str, str], *, all_of_them: bool = True) -> None:
    """Run definitions that build on each other in rounds, so that no list of dependencies has to be kept."""
    waiting = dict(statements)
    while waiting:
        errors: dict[str, duckdb.Error] = {}
        for name, statement in waiting.items():
            try:
                connection.execute(statement)
            except (duckdb.CatalogException, duckdb.BinderException) as error:
                errors[name] = error
        if len(errors) == len(waiting):
            if not all_of_them:
                return
            name, cause = next(iter(errors.items()))
            raise ValueError(f"{name}: {cause}") from cause
        waiting = {name: waiting[name] for name in errors}


def check_metric(connection: duckdb.DuckDBPyConnection, metric: Metric) -> list[str]:
    """Return how a metric's header differs from what its query returns; nothing if they agree."""
    described = connection.execute(f"DESCRIBE main.{metric.name}").fetchall()
    returned = [(row[0], row[1]) for row in described]
    documented = [(column.name, column.type) for column in metric.columns]
    return [
        f"{metric.name}: documented {documents}, returned {returns}"
        for documents, returns in zip(
            documented + [None] * (len(returned) - len(documented)),
            returned + [None] * (len(documented) - len(returned)),
            strict=True,
        )
        if documents != returns
    ]


def add_comments(connection: duckdb.DuckDBPyConnection) -> None:
    """Copy what tables, metrics and columns mean into the catalogue."""
    there = {(schema, name) for schema, name in connection.execute(_RELATIONS).fetchall()}
    documented = [("canonical", t.name, t.comment, t.columns) for t in canonical_tables().values()]
    documented += [("attribution", t.name, t.comment, t.columns) for t in derived_tables().values()]
    documented += [("main", metric.name, metric.text, metric.columns) for metric in metrics().values()]
    connection.begin()  # one write for all instead of one each
    for schema, name, comment, columns in documented:
        if (schema, name) not in there:
            continue
        kind = "TABLE" if (schema, name) == ("canonical", "traces") else "VIEW"
        connection.execute(f"COMMENT ON {kind} {schema}.{name} IS {_quoted(comment)}")
        for column in columns:
            connection.execute(f"COMMENT ON COLUMN {schema}.{name}.{column.name} IS {_quoted(column.comment)}")
    connection.commit()


def _add_pass_through(connection: duckdb.DuckDBPyConnection, schema: str, names: Iterable[str]) -> None:
    """Let tables be named without their schema where no metric has the name."""
    for name in names:
        if name not in metrics():
            connection.execute(f"CREATE OR REPLACE VIEW main.{name} AS FROM {schema}.{name}")


def _in_schema(table: Table, schema: str) -> str:
    return table.sql.replace(f"CREATE TABLE {table.name} (", f"CREATE TABLE {schema}.{table.name} (")


def _insert(connection: duckdb.DuckDBPyConnection, target: str, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    connection.register("incoming_rows", rows)
    connection.execute(f"INSERT INTO {target} BY NAME FROM incoming_rows")
    connection.unregister("incoming_rows")


def _insert_trace(connection: duckdb.DuckDBPyConnection, trace_id: int, stored: StoredTrace) -> None:
    # In SQL, because Arrow imports pandas (a fifth of a second) to make a column of Python values.
    connection.execute(
        """
        INSERT INTO canonical.traces BY NAME
        SELECT
            $trace_id AS trace_id,
            * REPLACE ($trace AS trace, $path AS path, $rank AS rank, $rank_source AS rank_source)
        FROM read_parquet($file)
        """,
        {
            "trace_id": trace_id,
            "trace": stored.trace,
            "path": str(stored.path),
            "rank": stored.rank,
            "rank_source": stored.rank_source,
            "file": str(stored.folder / "traces.parquet"),
        },
    )


def _stored_view(table: Table, traces: Mapping[int, StoredTrace]) -> str:
    """Return the view of a table over every trace's Parquet files, with the trace's number put in front."""
    if not traces:
        empty = ", ".join(f"CAST(NULL AS {c.type}) AS {c.name}" for c in table.columns)
        return f"CREATE VIEW canonical.{table.name} AS SELECT {empty} LIMIT 0"
    columns = ", ".join(f'"{column.name}"' for column in table.columns if column.name != "trace_id")
    # Named one by one: a folder's own name may hold what is a wildcard in a pattern.
    parts = (part for stored in traces.values() for part in sorted(stored.folder.glob(f"{table.name}*.parquet")))
    files = ", ".join(map(literal, parts))
    if len(traces) == 1:
        trace_id, source = str(*traces), f"read_parquet([{files}])"
    else:
        # One scan of many files is bound in a third of the time that a union takes, and reads no file of other traces.
        numbers = ", ".join(f"{literal(stored.folder)}: {number}" for number, stored in traces.items())
        trace_id = f"MAP {{{numbers}}}[parse_dirpath(filename)]"
        source = f"read_parquet([{files}], filename = true)"
    return (
        f"CREATE VIEW canonical.{table.name} AS SELECT CAST({trace_id} AS INTEGER) AS trace_id, {columns} FROM {source}"
    )


def literal(path: Path) -> str:
    """Return a path of our own store as a SQL text; views cannot have parameters."""
    return _quoted(str(path))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
