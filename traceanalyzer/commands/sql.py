"""`traceanalyzer sql`: query a run in SQL, also at a prompt that completes tables and their columns."""

from __future__ import annotations

import io
import math
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from traceanalyzer.commands.output import chosen_format, report_options, show_error, written, written_bytes
from traceanalyzer.commands.run_options import Activity, RunOptions, opened, run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import interrupted_after, query_error, stay_on_interrupt

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


# The letters at which a shell's word ends.
DELIMITERS = " \t\n,;()=<>+-*/'\""
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "USING", "DESC", "NULLS LAST"),
    *("count", "sum", "min", "max", "avg", "CASE WHEN", "THEN", "ELSE", "END", "AND", "NOT", "IS NULL", "DISTINCT"),
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WANTS_TABLE = re.compile(r"(?:\b(?:FROM|JOIN|DESCRIBE|SUMMARIZE|\.columns)|\bFROM\s+[\w\s,]*,)\s*$", re.IGNORECASE)


def completions(before: str, word: str, tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what a word may become, by name; `before` is the statement up to it, `tables` has columns by table."""
    owner, dot, start = word.rpartition(".")
    if dot:
        return [f"{owner}.{name}" for name in sorted(tables.get(owner, ())) if _begins(name, start)]
    if _WANTS_TABLE.search(before):
        return sorted(name for name in tables if _begins(name, word))
    named = [name for name in _WORD.findall(before) if name in tables]
    columns = {column for name in named for column in tables[name]}
    if not named and not word:
        return []
    # Before FROM is written, any column may be meant.
    known = columns or {column for names in tables.values() for column in names}
    keywords = {name for name in KEYWORDS if _begins(name, word)} if word else set()
    return sorted({name for name in (*known, *tables) if _begins(name, word)} | keywords)


def _begins(name: str, start: str) -> bool:
    return name.lower().startswith(start.lower())


# Interval at which a query is interrupted until it stops.
_TICK_S = 0.05

# More than any query has. A file may have no end, and reading a query takes 500 bytes of memory a character.
MOST_CHARACTERS = 200_000

# As for a rule's query.
TIMEOUT_S = 30.0

FORMATS = ("table", "csv", "json", "parquet")

# Commands that users type without the point; no statement consists of one of these words.
_NAMES = "SELECT name, any_value(column_names) FROM (SHOW ALL TABLES) GROUP BY name"
BARE_COMMANDS = (["help"], ["quit"], ["exit"])
HELP = """Statements end with ; and may span lines; Ctrl-C cancels one.
  .tables          metrics and tables
  .columns NAME    columns of one of them
  .quit            leave (also Ctrl-D)"""


def _check_is_number(context: click.Context, parameter: click.Parameter, seconds: float) -> float:
    """Refuse NaN, which no range leaves out: a query would run without a limit."""
    if math.isnan(seconds):
        raise click.BadParameter("nan is no number of seconds.")
    return seconds


@click.command()
@run_options
@step_options
@click.argument("query", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), metavar="FILE", help="Read the query from FILE.")
@click.option(
    *("--timeout", "timeout_s"),
    type=click.FloatRange(min=0, min_open=True),
    callback=_check_is_number,
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="End a query that takes longer.",
)
@report_options("Format of the rows.", "rows", FORMATS)
def sql(
    options: RunOptions,
    query: str | None,
    file: Path | None,
    timeout_s: float,
    layout: str | None,
    output: Path | None,
) -> None:
    """Query a run in SQL.

    QUERY is a statement over metrics and tables, in DuckDB's SQL. Without QUERY, the statement comes from --file, from
    a pipe, or from a prompt. `traceanalyzer metrics list` lists the metrics and tables.
    """
    format_ = chosen_format(layout, output, FORMATS)
    text = _query(query, file)
    with opened(options) as (run, activity):
        if text is None:
            activity.stop()
            _shell(run.connection, timeout_s)
            return
        activity.phase("running the query")
        _run(run.connection, text, timeout_s, format_, output, activity)


def _query(query: str | None, file: Path | None) -> str | None:
    """Return the query from the argument, the file or a pipe; None: open a prompt."""
    if query is not None and file is not None:
        raise TraceAnalyzerError("a query and --file were both given", "sql", "give one of them")
    if file is not None and str(file) != "-":
        try:
            with file.open(encoding="utf-8") as stream:
                return _bounded(stream, str(file))
        except OSError as error:
            raise TraceAnalyzerError(f"cannot be read: {error.strerror}", file) from error
        except UnicodeDecodeError as error:
            raise TraceAnalyzerError("holds no text in UTF-8", file) from error
    if query is not None and query != "-":
        return _bounded(io.StringIO(query), "the query")
    if file is None and query is None and sys.stdin.isatty():
        return None
    return _bounded(sys.stdin, "standard input")


def _bounded(stream: TextIO, where: str) -> str:
    """Return a text; raise TraceAnalyzerError where it has no end, or is no query."""
    text = stream.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise TraceAnalyzerError(f"is longer than {MOST_CHARACTERS:,} characters", where, "is it a query?")
    if any("\ud800" <= character <= "\udfff" for character in text):  # as Python reads bytes that are no text
        raise TraceAnalyzerError("holds no text in UTF-8", where)
    return text


def _run(
    con: duckdb.DuckDBPyConnection,
    text: str,
    timeout_s: float,
    layout: str,
    output: Path | None,
    activity: Activity,
) -> None:
    if layout == "parquet" and output is None and sys.stdout.isatty():
        raise TraceAnalyzerError("Parquet is not for a terminal", "--format parquet", "name a file with --output")
    if not text.strip().strip(";"):
        raise TraceAnalyzerError("the query is empty", "sql", "for example: SELECT * FROM device_time")
    result = _LimitedRows(con, text, timeout_s)
    activity.stop()
    _write(result, layout, output)


def _write(result: _LimitedRows, layout: str, output: Path | None) -> None:
    from traceanalyzer.report.screens import result_set

    if not result_set.column_names(result):
        return
    if layout == "parquet":
        with written_bytes(output) as binary:
            result_set.write_parquet(*result.arrow_batches(result_set.BATCH_ROWS), binary)
        return
    with written(output) as stream:
        if layout == "csv":
            result_set.write_csv(result, stream)
        elif layout == "json":
            result_set.write_json(result, stream)
        else:
            is_terminal = output is None and sys.stdout.isatty()
            result_set.write_table(result, stream, width=shutil.get_terminal_size().columns if is_terminal else None)


class _LimitedRows:
    """The rows of a query, computed while they are written: what computes them counts against the time of the query."""

    def __init__(self, con: duckdb.DuckDBPyConnection, text: str, timeout_s: float) -> None:
        self._con = con
        self._timeout_s = self._left_s = timeout_s
        with self._counted():
            self._result = _executed(con, text)
        self.description = self._result.description

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        with self._counted():
            return self._result.fetchmany(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        with self._counted():
            return self._result.fetchall()

    def arrow_batches(self, batch_rows: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        with self._counted():
            reader = self._result.to_arrow_reader(batch_rows)
        if reader is None:
            raise TraceAnalyzerError("the statement returns no rows", "sql --format parquet")
        return reader.schema, self._batches(reader)

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._counted():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _counted(self) -> Iterator[None]:
        import duckdb

        start_s = time.monotonic()
        try:
            with interrupted_after(max(self._left_s, 0), self._con):
                yield
        except Exception as error:
            # Arrow has errors of its own for what ends a query, and a query may say the word, too.
            if "INTERRUPT" in str(error) and time.monotonic() - start_s >= self._left_s:
                hint = "give it more with --timeout SECONDS, or ask for less"
                raise TraceAnalyzerError(f"took longer than {self._timeout_s:g} s", "query", hint) from error
            if isinstance(error, duckdb.Error):
                raise query_error(str(error)) from error
            raise
        finally:
            self._left_s -= time.monotonic() - start_s


def _executed(con: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyConnection:
    # In a thread of its own, because DuckDB may compute for minutes before it checks for Ctrl-C.
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(con.execute, text)
        try:
            return job.result()
        except KeyboardInterrupt:
            # DuckDB forgets an interruption before the query starts, and the thread may start the query late.
            while not job.done():
                con.interrupt()
                wait([job], timeout=_TICK_S)
            raise


def _shell(con: duckdb.DuckDBPyConnection, timeout_s: float) -> None:
    lines: list[str] = []
    stay_on_interrupt()
    _complete(con, lines)
    click.echo("SQL on the run; Tab completes names, .help lists other commands, Ctrl-D leaves.")
    while True:
        try:
            line = input("sql> " if not lines else "...> ")
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            click.echo()
            lines.clear()
            continue
        words = line.strip().rstrip(";").split()
        if not lines and words and (words[0].startswith(".") or words in BARE_COMMANDS):
            if words[0].lstrip(".") in ("quit", "exit"):
                return
            _dot_command(con, words, timeout_s)
            continue
        if not lines and not words:
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            _answer_all(con, "\n".join(lines), timeout_s)
            lines.clear()


def _complete(con: duckdb.DuckDBPyConnection, lines: list[str]) -> None:
    """Let Tab complete tables and columns; `lines` are those of the statement so far. Nothing without readline."""

    try:
        import readline  # also line editing and history for input()
    except ImportError:
        return
    tables: dict[str, list[str]] = {}
    found: list[str] = []

    def complete(word: str, state: int) -> str | None:
        if not tables:
            tables.update((name, columns) for name, columns in con.execute(_NAMES).fetchall())
        if state == 0:
            before = "\n".join([*lines, readline.get_line_buffer()[: readline.get_begidx()]])
            found[:] = completions(before, word, tables)
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(DELIMITERS)
    uses_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if uses_libedit else "tab: complete")


def _dot_command(con: duckdb.DuckDBPyConnection, words: list[str], timeout_s: float) -> None:
    if words[0] == ".tables":
        _answer(con, "SHOW TABLES", timeout_s)
    elif words[0] == ".columns" and len(words) == 2:
        quoted = words[1].replace('"', '""')
        _answer(con, f'DESCRIBE "{quoted}"', timeout_s)
    else:
        click.echo(HELP)


def _answer_all(con: duckdb.DuckDBPyConnection, text: str, timeout_s: float) -> None:
    """Answer every statement of a text in turn; the first that cannot be answered ends it."""
    import duckdb

    try:
        statements = [statement.query for statement in con.extract_statements(text)]
    except duckdb.Error as error:
        show_error(query_error(str(error)))
        return
    for statement in statements:
        if not _answer(con, statement, timeout_s):
            return


def _answer(con: duckdb.DuckDBPyConnection, text: str, timeout_s: float) -> bool:
    """Run one statement of the shell, print its rows or its error, and return whether there were rows."""
    try:
        _run(con, text, timeout_s, "table", None, Activity(enabled=False))
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    except TraceAnalyzerError as error:
        show_error(error)
    else:
        return True
    return False
