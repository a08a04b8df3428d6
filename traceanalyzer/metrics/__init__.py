"""Metrics as documented SELECT files, in folders by subject: what each returns and reads, and their order.

Macros that the SQL of metrics, rules and users calls have a file each in `macros`, but for those that are made from the
patterns of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from msgspec import Struct

from traceanalyzer.schema import Column, derived_tables
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.owner import kept_data
from traceanalyzer.text.visible import quoted

# Of the attribution tables, those that every connection has: graphs and their captures alone tell them.
CAPTURED_TABLES = ("captured_owners", "captured_calls")
# Columns that mean the same in most metrics: those that come first stand by name alone after `columns:`.
_COMMON = {
    "trace": Column("trace", "VARCHAR", False, "name of the trace"),
    "rank": Column("rank", "INTEGER", False, "rank in the job"),
    "device": Column("device", "INTEGER", False, "device"),
    "trace_id": Column("trace_id", "INTEGER", False, "traces.trace_id"),
}
_COLUMNS = "-- columns:"
_COLUMN = re.compile(r"^--   (?P<name>\w+) +(?P<type>[A-Z]+) +(?P<comment>.+)$")
_MORE = re.compile(r"^--    +(?P<comment>\S.*)$")
_NEEDED = "empty without: "
_COMMENT = re.compile(r"--.*")
# Patterns of SQL begin with a word or sign as it is written: Python then looks for that alone, in a tenth of the time.
# A relation after FROM or JOIN, or a table macro with its arguments.
_RELATION = r"\s+(?P<name>[a-z_][\w.]*)(?:\((?P<arguments>[^()]*)\))?"
_SOURCES = tuple(re.compile(start + _RELATION) for start in (r"from(?<!\wfrom)(?<!distinct from)", r"join(?<!\wjoin)"))
_WORD = re.compile(r"[a-z_]\w*")
_QUOTED = re.compile(r"'(\w+)'")
_NAMED = r"\s+(\w+) as (?:(?:not )?materialized )?\("
_QUERY_PARTS = tuple(re.compile(start + _NAMED) for start in (r"with(?<!\wwith)(?: recursive)?", ","))


class Metric(Struct, frozen=True):
    """One documented SELECT: what a row is, the definitions, the columns with type and meaning, and what it reads."""

    name: str
    subject: str  # the folder of its file
    summary: str
    text: str
    columns: tuple[Column, ...]
    sql: str
    reads: frozenset[str]  # other metrics that its query reads itself
    empty_without: str | None  # what it has no row without: what follows FROM in a query that costs next to nothing
    needs_attribution: bool  # whether it, or a metric below it, reads attribution tables other than CAPTURED_TABLES
    words: frozenset[str]  # of its query: the names of all that it reads are among them


@cache
def metrics() -> dict[str, Metric]:
    """Return every metric by name, in alphabetical order."""
    return dict(sorted(metrics_in_order().items()))


@cache
def metrics_in_order() -> dict[str, Metric]:
    """Return every metric by name, each after those that it reads: the order in which to define or compute them."""
    kept = kept_metrics()
    return load_metrics(Path(__file__).parent) if kept is None else kept


def kept_metrics() -> dict[str, Metric] | None:
    """Return the metrics as `kept_data`: reading their files takes ten times as long."""
    kept: dict[str, Metric] | None = kept_data(
        "metrics", engine_key(("metrics", "schema")), dict[str, Metric], lambda: load_metrics(Path(__file__).parent)
    )
    return kept


def with_those_below(names: Iterable[str]) -> dict[str, Metric]:
    """Return the named metrics and all that these read in turn, each after those that it reads."""
    needed = set(names)
    for name, metric in reversed(metrics_in_order().items()):
        if name in needed:
            needed |= metric.reads
    return {name: metric for name, metric in metrics_in_order().items() if name in needed}


def load_metrics(folder: Path) -> dict[str, Metric]:
    """Return the metrics of a folder by name, each after those that it reads.

    Raises ValueError where a header does not follow the format, or where metrics read each other in a circle.
    """
    paths = {path.stem: path for path in sorted(folder.rglob("*.sql"))}
    sources = {name: frozenset(sources_in(path.read_text(encoding="utf-8"))) for name, path in paths.items()}
    tables = derived_tables().keys() - CAPTURED_TABLES
    # A metric hides a table of the same name; the table then needs its schema.
    attribution = {f"attribution.{table}" for table in tables} | (tables - paths.keys())
    loaded: dict[str, Metric] = {}
    for name in in_reading_order({name: read & paths.keys() for name, read in sources.items()}):
        reads = sources[name] & paths.keys()
        attributed = bool(sources[name] & attribution) or any(loaded[other].needs_attribution for other in reads)
        loaded[name] = parse_metric(paths[name], reads, needs_attribution=attributed)
    return loaded


def in_reading_order(reads: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names, each after those that it reads; raise ValueError where they read each other in a circle."""
    try:
        return list(TopologicalSorter({name: sorted(others) for name, others in reads.items()}).static_order())
    except CycleError as error:
        raise ValueError(f"these read each other: {', '.join(error.args[1])}") from error


def sources_in(sql: str) -> list[str]:
    """Return the tables and metrics that SQL reads, as often as it names them, without its own query parts."""
    text = _COMMENT.sub("", sql).lower()
    parts = {name for pattern in _QUERY_PARTS for name in pattern.findall(text)}
    named = [
        name
        for pattern in _SOURCES
        for source in pattern.finditer(text)
        for name in (_QUOTED.findall(source["arguments"]) if source["arguments"] is not None else [source["name"]])
    ]
    return [name for name in named if name not in parts]


def parse_metric(path: Path, reads: frozenset[str], *, needs_attribution: bool) -> Metric:
    """Read a metric file: its header names every column that its SELECT returns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    header = lines[:end]
    start = next((i for i, line in enumerate(header) if line.startswith(_COLUMNS)), None)
    if start is None:
        raise ValueError(f"{path}: the header lists no columns")
    prose = [line.removeprefix("--").removeprefix(" ").rstrip() for line in header[:start]]
    needed = [line.removeprefix(_NEEDED) for line in prose if line.startswith(_NEEDED)]
    prose = [line for line in prose if not line.startswith(_NEEDED)]
    common = re.findall(r"\w+", header[start].removeprefix(_COLUMNS))
    if unknown := sorted(set(common) - _COMMON.keys()):
        raise ValueError(f"{path}: no type and meaning: {', '.join(unknown)}")
    columns = [_COMMON[name] for name in common]
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
    sql = "\n".join(lines[end:]).strip()
    return Metric(
        path.stem,
        path.parent.name,
        summary,
        text,
        tuple(columns),
        sql,
        reads,
        empty_without=" ".join(needed) or None,
        needs_attribution=needs_attribution,
        words=words_in(sql),
    )


def words_in(sql: str) -> frozenset[str]:
    """Return the words of SQL, of comments and texts too."""
    return frozenset(_WORD.findall(sql.lower()))


_CALLED = re.compile(r"\b(\w+)\s*\(")


@cache
def macro_files() -> dict[str, str]:
    """Return the definition of every macro that has a file by name, each after those that it calls."""
    files = sorted((Path(__file__).parents[1] / "macros").glob("*.sql"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    calls = {name: set(_CALLED.findall(text)) & texts.keys() - {name} for name, text in texts.items()}
    return {name: texts[name] for name in in_reading_order(calls)}


_PATTERNS = Path(__file__).parent / "kernels" / "kernel_class_patterns.sql"
_ROW = re.compile(r"^ *\('(\w+)', (\d+), '((?:[^']|'')*)', '((?:[^']|'')*)',", re.MULTILINE)
_ASPECTS = ("class", "precision", "tensor_core")


@cache
def pattern_macros() -> dict[str, str]:
    """Return the definition of a macro for each aspect: kernel_class_of(name) is NULL where no pattern matches."""
    return {
        f"kernel_{aspect}_of": f"CREATE OR REPLACE MACRO kernel_{aspect}_of(name) AS {case_of(aspect)}"
        for aspect in _ASPECTS
    }


def case_of(aspect: str) -> str:
    """Return the SQL expression over `name` that the first matching pattern of an aspect decides."""
    cases = (
        f"WHEN regexp_matches(name, {quoted(pattern)}) THEN {quoted(value)}"
        for of_aspect, pattern, value in _patterns()
        if of_aspect == aspect
    )
    return "\n".join(("CASE", *cases, "END"))


@cache
def _patterns() -> list[tuple[str, str, str]]:
    """Return the aspect, pattern and value of each row of the metric, in their order: asking DuckDB takes 30 ms."""
    rows = [tuple(text.replace("''", "'") for text in row) for row in _ROW.findall(_PATTERNS.read_text("utf-8"))]
    return [(aspect, pattern, value) for aspect, _, pattern, value in sorted(rows, key=lambda row: int(row[1]))]
