"""A page for each metric and for each table below them, and their index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from pages.markdown import literal, paragraphs, prose, table
from pages.parts import ROOT
from traceanalyzer.query import engine
from traceanalyzer.run import open_run
from traceanalyzer.schema import Column, canonical_tables, rule_tables
from tracesim import simulate_job

SAMPLE = "sample_traces/slow_loader"
# What one rank of a job without allocator events and unfused attention cannot show.
TWO_RANKS = {
    "ranks": 2,
    "steps": 5,
    "kernels": 24,
    "comm_us": 1600,
    "attention": "unfused",
    "attention_layers": 1,
    "memory": True,
    "sync_events": True,
    "stacks": True,
    "malloc_per_step": 1,
    "loader_workers": 2,
    "faults": {"rank": 1, "loader_us": 8000},
}
MOST_ROWS = 5
# A wider answer stands on its side: a row for each column.
MOST_COLUMNS = 8
MOST_ROWS_ON_SIDE = 3


@dataclass(frozen=True)
class Relation:
    """A metric or a table: where it is defined, what it says of itself, and its page."""

    name: str  # as queries write it
    page: str
    text: str
    columns: tuple[Column, ...]
    file: str

    @property
    def summary(self) -> str:
        """The first sentence: what one row is."""
        return " ".join(self.text.split("\n\n")[0].split()).split(". ")[0].rstrip(".") + "."


@dataclass(frozen=True)
class Answer:
    """The first rows of a relation, and the run that gave them."""

    run: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def metric_pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    groups = {
        "Metrics": _metrics(),
        "Tables that attribution computes": _tables("attribution"),
        "Tables that ingesters fill": _tables("canonical"),
        "Tables that only rules read": _tables("rules"),
    }
    relations = [relation for group in groups.values() for relation in group]
    answers = _answers(relations)
    pages = {relation.page: _page(relation, answers.get(relation.name)) for relation in relations}
    return {"README.md": _index(groups), **pages}


def _metrics() -> list[Relation]:
    return [
        Relation(name, f"{name}.md", metric.text, metric.columns, f"traceanalyzer/metrics/{metric.subject}/{name}.sql")
        for name, metric in engine.metrics().items()
    ]


def _tables(schema: str) -> list[Relation]:
    tables, folder = {
        "attribution": (engine.derived_tables(), "traceanalyzer/attribution/schema"),
        "canonical": (canonical_tables(), "traceanalyzer/schema"),
        "rules": (rule_tables(), "traceanalyzer/rules/schema"),
    }[schema]
    return [
        Relation(name, f"{name}.md", table.comment, table.columns, f"{folder}/{table.name}.sql")
        for table in tables.values()
        # A metric hides the table that has its name.
        for name in [f"{schema}.{table.name}" if table.name in engine.metrics() else table.name]
    ]


def _answers(relations: list[Relation]) -> dict[str, Answer]:
    """Return the first rows of each relation, from the first run in which it has any."""
    answers: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for label, run in _runs(Path(scratch)):
            for relation in relations:
                if relation.name not in answers and relation.name not in rule_tables():
                    result = run.execute(f"FROM {relation.name} ORDER BY ALL LIMIT {MOST_ROWS}")
                    columns, rows = tuple(column[0] for column in result.description or ()), result.fetchall()
                    if rows:
                        answers[relation.name] = Answer(label, columns, tuple(rows))
    return answers


def _runs(scratch: Path) -> Iterator[tuple[str, duckdb.DuckDBPyConnection]]:
    """Open the runs that examples are from: the sample first, for readers can ask it themselves."""
    with _opened(ROOT, SAMPLE, scratch) as run:
        yield f"[{SAMPLE}](../../{SAMPLE})", run
    job = simulate_job(TWO_RANKS)
    job.write_kineto(scratch / "two_ranks")
    with _opened(scratch, "two_ranks", scratch) as run:
        yield "a simulated job of two ranks, recorded by PyTorch's profiler", run
    job.write_nsys(scratch / "two_ranks_nsys")
    with _opened(scratch, "two_ranks_nsys", scratch) as run:
        yield "a simulated job of two ranks, recorded by Nsight Systems", run


@contextmanager
def _opened(folder: Path, run: str, scratch: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    # From its folder, for paths are among the columns.
    with chdir(folder), open_run(run, store=scratch / "store") as opened:
        yield opened.connection


def _index(groups: dict[str, list[Relation]]) -> str:
    parts = [
        "# Metrics and tables\n",
        "Everything that `traceanalyzer sql RUN` can ask; each page is made from the definition by `make docs`. "
        "`traceanalyzer metrics export RUN FOLDER` writes metrics as files.\n",
    ]
    for title, relations in groups.items():
        rows = [(f"[`{relation.name}`]({relation.page})", prose(relation.summary)) for relation in relations]
        parts += [f"## {title}\n", table(("name", "what it holds"), rows)]
    return "\n".join(parts)


def _page(relation: Relation, answer: Answer | None) -> str:
    rows = [(f"`{column.name}`", column.type, prose(column.comment)) for column in relation.columns]
    parts = [
        f"# `{relation.name}`\n",
        paragraphs(relation.text),
        "## Columns\n",
        table(("column", "type", "meaning"), rows),
        "## Example\n",
        *(_example(relation, answer) if answer else [_no_answer(relation)]),
        f"Defined in [{relation.file}](../../{relation.file}).\n",
    ]
    return "\n".join(parts)


def _no_answer(relation: Relation) -> str:
    if relation.name in rule_tables():
        return "`traceanalyzer rules explain ID RUN` shows the row that a rule reads.\n"
    return "No run that this page is made from has a row of it.\n"


def _example(relation: Relation, answer: Answer) -> list[str]:
    query = f"FROM {relation.name} ORDER BY ALL LIMIT"
    if len(answer.columns) <= MOST_COLUMNS:
        shown = [[literal(value) for value in row] for row in answer.rows]
        return [f"`{query} {MOST_ROWS}` on {answer.run}:\n", table(answer.columns, shown)]
    rows = answer.rows[:MOST_ROWS_ON_SIDE]
    head = ("column", *(f"row {number}" for number in range(1, len(rows) + 1)))
    sides = [
        (name, *(literal(row[at]) for row in rows)) for at, name in enumerate(f"`{name}`" for name in answer.columns)
    ]
    return [f"`{query} {MOST_ROWS_ON_SIDE}` on {answer.run}, each row as a column:\n", table(head, sides)]
