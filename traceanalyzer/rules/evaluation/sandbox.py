"""Runs a rule's SQL so that it can be wrong or slow, but cannot read a file, reach the network, or hang the run.

A query has half a minute, the queries of one diagnosis five minutes together, a few GiB of memory beside the tables of
the run, 200,000 characters, and a million rows of answer. A query that reaches a limit raises
RuleLimitError; no answer is ever cut.

Prepares a connection for rules: the table `bound`, costly metrics computed once, and everything locked.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.metrics import sources_in, with_those_below
from traceanalyzer.process import interrupted_after, memory_within
from traceanalyzer.query import engine
from traceanalyzer.query.empty import NOT_COMPUTED, metric_views
from traceanalyzer.rules.rule_file.model import Rule
from traceanalyzer.schema import rule_tables

# The queries of evaluation and diagnosis, one file each, named after what its rows are.
_FOLDER = Path(__file__).parents[1] / "sql"


@cache
def read_query(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


# What evaluation itself reads: its SQL, and what requirements are made of.
_OWN_SQL = "\n".join(
    [
        "FROM capabilities",
        "attribution.replay_events",
        "attribution.replay_costs",
        "attribution.replay_needs",
        "attribution.collective_members",
        *(file.read_text(encoding="utf-8") for file in sorted(_FOLDER.glob("*.sql"))),
    ]
)
_PARQUET = re.compile(r"'((?:[^']|'')*\.parquet)'")

# Filled for each rule in turn: rules are evaluated one after the other.
BOUND_TABLE = rule_tables()["bound"].sql.replace("CREATE TABLE", "CREATE OR REPLACE TEMP TABLE")


def lock_workspace(con: duckdb.DuckDBPyConnection) -> None:
    """Give a connection the table `bound`, and lock it for good: rules read its tables and nothing else."""
    con.execute(BOUND_TABLE.replace("OR REPLACE TEMP TABLE", "TEMP TABLE IF NOT EXISTS"))
    if not is_locked(con):
        lock(con, _folders_read(con))


def tables_read(rules: Iterable[Rule]) -> list[str]:
    """Return the tables and metrics that the texts of `readers` read, as often as they name them."""
    return [*sources_in(_OWN_SQL), *(name for rule in rules for name in rule.reads)]


def readers(rules: Iterable[Rule]) -> list[str]:
    """Return the SQL texts that read the connection: evaluation's own, and each rule's."""
    return [_OWN_SQL, *(rule.sql for rule in rules)]


class SharedMetrics:
    """Makes tables of the metrics that several texts read, each when the first text is asked that reads it.

    What only texts read that nobody asks is never planned. `read` are the tables and metrics that all texts read, as
    often as they name them.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, read: Iterable[str]) -> None:
        views = metric_views(connection)
        self._connection = connection
        self._waiting = [name for name in engine.shared_metrics(read) if name in views]

    def make_for(self, read: Iterable[str]) -> None:
        """Make tables of the shared metrics that are read, by name or by other metrics, and are views so far."""
        if not self._waiting:
            return
        below = with_those_below(read)
        for name in [name for name in self._waiting if name in below]:
            engine.compute_once(self._connection, name)
            self._waiting.remove(name)


def _folders_read(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the folders of the Parquet files behind a connection's views: all that rules may touch on disk."""
    of_files = "FROM duckdb_views() WHERE schema_name IN ('canonical', 'attribution')"
    if not con.execute(f"SELECT view_name {of_files}").fetchall():  # the texts of all metrics would be written
        return ()
    texts = con.execute(f"SELECT sql {of_files}").fetchall()
    files = [path.replace("''", "'") for (text,) in texts for path in _PARQUET.findall(text)]
    return tuple(sorted({str(folder.resolve()) for folder in {Path(file).parent for file in files}}))


TIMEOUT_S = 30.0
TOTAL_TIMEOUT_S = 300.0
# For queries of our own, which end.
UNLIMITED = math.inf
ROW_LIMIT = 1_000_000
MEMORY_GIB = 4.0
# Reading a query takes time that has no limit: those of the built-in rules have a tenth of this.
LONGEST_QUERY = 200_000

_FEWER = "diagnose fewer traces or steps, make the rule's query cheaper, or switch the rule off"
_GIB = 1 << 30
_SIZES = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": _GIB, "TiB": 1 << 40}

_LOCKS = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)


class RuleQueryError(TraceAnalyzerError):
    """A rule's SQL failed: it is no single SELECT, does not bind, raised, or reached a limit.

    `line` is the line of the SQL text that DuckDB points at, from 1.
    """

    def __init__(self, what: str, line: int = 1, hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.line = line


class RuleLimitError(RuleQueryError):
    """A rule's SQL needs more time, memory or rows than a query has."""

    def __init__(self, what: str, hint: str = _FEWER) -> None:
        super().__init__(f"limit reached: {what}", hint=hint)


class Rows(Struct, frozen=True):
    """The answer of a query: column names and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def lock(con: duckdb.DuckDBPyConnection, allowed_directories: tuple[str, ...] = ()) -> None:
    """Close a connection's database to files, except in the given folders, and to the network, for good."""
    folders = ", ".join(f"'{folder.replace(chr(39), chr(39) * 2)}'" for folder in allowed_directories)
    # Settings take no parameters; the folders are those of our own store.
    con.execute(f"SET allowed_directories = [{folders}]")
    _limit_memory(con)
    for statement in _LOCKS:
        con.execute(statement)


def is_locked(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether `lock` was called for a connection."""
    return bool(con.execute("SELECT current_setting('lock_configuration')").fetchall()[0][0])


def _limit_memory(con: duckdb.DuckDBPyConnection) -> None:
    """Give queries some memory beside the tables that a connection holds, and no disk."""
    (used_bytes,) = con.execute("SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory()").fetchall()[0]
    (limit,) = con.execute("SELECT current_setting('memory_limit')").fetchall()[0]
    number, unit = limit.split()
    limit_bytes = int(used_bytes + MEMORY_GIB * _GIB)
    if limit_bytes < float(number) * _SIZES[unit]:
        con.execute(f"SET memory_limit = '{limit_bytes}B'")
    # A run whose own tables lie there already keeps it.
    with suppress(duckdb.Error):
        con.execute("SET temp_directory = ''")


class _TimeBudget(Struct):
    total_s: float
    left_s: float


_TIME_BUDGET: ContextVar[_TimeBudget] = ContextVar("time left for rule queries")


@contextmanager
def total_time(timeout_s: float | None = None) -> Iterator[None]:
    """Give all queries of the body with a limit this long together."""
    total_s = TOTAL_TIMEOUT_S if timeout_s is None else timeout_s
    before = _TIME_BUDGET.set(_TimeBudget(total_s, total_s))
    try:
        yield
    finally:
        _TIME_BUDGET.reset(before)


def _late(budget: _TimeBudget, timeout_s: float) -> RuleLimitError:
    if timeout_s <= budget.left_s:
        return RuleLimitError(f"the query took longer than {timeout_s:g} s")
    return RuleLimitError(f"the queries of all rules together took longer than {budget.total_s:g} s")


@contextmanager
def limited(con: duckdb.DuckDBPyConnection, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Run one query of a rule in the body; raises RuleLimitError where it takes too long or too much memory."""
    budget = _TIME_BUDGET.get(_TimeBudget(math.inf, math.inf))
    is_ours = timeout_s == UNLIMITED
    left_s = timeout_s if is_ours else min(timeout_s, budget.left_s)
    if left_s <= 0:
        raise _late(budget, timeout_s)
    started_s = time.monotonic()
    try:
        # Of the memory that DuckDB does not count, what it counts is a part.
        memory_bytes = math.inf if is_ours else 2 * MEMORY_GIB * _GIB
        with interrupted_after(left_s, con), memory_within(memory_bytes):
            yield
    except duckdb.InterruptException as error:
        raise _late(budget, timeout_s) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise RuleLimitError(f"the query needs more than {MEMORY_GIB:g} GiB of memory") from error
    except duckdb.Error as error:
        if NOT_COMPUTED in str(error):
            raise RuleLimitError(str(error).partition(": ")[2]) from error
        raise _query_error(error) from error
    finally:
        if not is_ours:
            budget.left_s -= time.monotonic() - started_s


def check_select(con: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """Return the parameters of a text that is exactly one SELECT; raises RuleQueryError otherwise."""
    return set(_parsed(con, sql).named_parameters)


def columns(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of one SELECT with their types; the SELECT is bound and not run, so that it may be endless."""
    check_select(con, sql)
    statement = _parsed(con, f"SELECT * FROM ({sql}\n) LIMIT 0")
    named = _named(statement, values)
    # Binding works out what is constant, which can take any time and memory.
    with limited(con):
        described = con.execute(statement, named).description or ()
    con.abort()
    return {name: str(kind) for name, kind, *_ in described}


def query(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> Rows:
    """Return the rows of one SELECT with the bound parameters it names."""
    names, rows = _fetched(con, sql, values, ROW_LIMIT + 1, timeout_s)
    if len(rows) > ROW_LIMIT:
        con.abort()  # the rest of an answer that nobody reads would block the connection
        raise RuleLimitError(f"the query returns more than {ROW_LIMIT:,} rows", "aggregate them in the rule's query")
    return Rows(names, tuple(tuple(_plain(value) for value in row) for row in rows))


def first_rows(con: duckdb.DuckDBPyConnection, sql: str, limit: int) -> tuple[Rows, bool]:
    """Return the first rows of one SELECT, and whether these are all."""
    names, rows = _fetched(con, sql, {}, limit + 1, TIMEOUT_S)
    con.abort()
    return Rows(names, tuple(rows[:limit])), len(rows) <= limit


def _fetched(
    con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any], most: int, timeout_s: float
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns and the first rows of one SELECT; the rest of them may still wait."""
    statement = _parsed(con, sql)
    named = _named(statement, values)
    with limited(con, timeout_s):
        cursor = con.execute(statement, named)
        return tuple(column[0] for column in cursor.description or ()), cursor.fetchmany(most)


def all_rows(con: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of one SELECT, as many as there are: for answers with a row per operation of the run."""
    statement = _parsed(con, sql)
    named = _named(statement, values)
    with limited(con):
        return con.execute(statement, named).fetchall()


def check_length(sql: str) -> None:
    """Raise RuleLimitError for a text that is too long to be read as a query."""
    if len(sql) > LONGEST_QUERY:
        what = f"the query has {len(sql):,} characters, and may have {LONGEST_QUERY:,}"
        raise RuleLimitError(what, "put fewer constants into the query")


# Parsed texts are bound to no connection, and the same few are asked again and again.
_PARSED: dict[str, duckdb.Statement] = {}


def _parsed(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the one SELECT that a text is."""
    if sql in _PARSED:
        return _PARSED[sql]
    check_length(sql)
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise _query_error(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise RuleQueryError("must be exactly one SELECT statement")
    return _PARSED.setdefault(sql, statements[0])


def _named(statement: duckdb.Statement, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters that a statement names."""
    names = statement.named_parameters
    missing = names - values.keys()
    if missing:
        raise RuleQueryError(f"no parameter or column is called ${min(missing)}")
    return {name: values[name] for name in names}


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _query_error(error: Exception) -> RuleQueryError:
    text, _, place = str(error).partition("\n\nLINE ")
    number = place.partition(":")[0]
    return RuleQueryError(" ".join(text.split()), int(number) if number.isdigit() else 1)
