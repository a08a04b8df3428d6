"""Metrics and tables that `sql` can query: the list of all, and what one of them holds."""

from __future__ import annotations

from textwrap import indent

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.metrics import Metric, metrics
from traceanalyzer.report.blocks import Block, Code, Heading, Paragraph, Section, Text
from traceanalyzer.schema import Column, TableSchema, canonical_tables, derived_tables, rule_tables

ALL_METRICS = "`traceanalyzer metrics list` lists all"

# A paragraph with aligned columns is a list, and keeps its lines.
_LIST = "   "


def list_sections() -> list[Section]:
    """Return every metric, and the tables below them, each with what one row is."""
    known = metrics()
    tables = {name: table for name, table in all_tables().items() if name not in known}
    width = max(map(len, [*known, *tables]))
    listed = (
        ("Metrics", {name: metric.summary for name, metric in known.items()}),
        ("Tables below them", {name: table.comment.split(". ")[0].rstrip(".") + "." for name, table in tables.items()}),
    )
    hint = "`traceanalyzer metrics show NAME` lists columns; `traceanalyzer sql RUN` queries them."
    return [
        *(
            Section(
                tuple(Paragraph(text, label=Text(f"{name:<{width}}", "label")) for name, text in sorted(rows.items())),
                Heading(title),
            )
            for title, rows in listed
        ),
        Section((Paragraph(hint, role="dim"),)),
    ]


def page(name: str, *, as_sql: bool = False) -> list[Section]:
    """Return what a metric or table means; raises TraceAnalyzerError where there is none of this name."""
    known, tables = metrics(), all_tables()
    table_name = name.removeprefix("canonical.").removeprefix("attribution.")
    if name in known:
        return _metric_sections(known[name], as_sql=as_sql)
    if table_name in tables:
        table = tables[table_name]
        return [Section((Heading(table.name), Paragraph(table.comment))), _columns(table.columns)]
    raise TraceAnalyzerError("no such metric or table", name, suggestion(name, [*known, *tables], ALL_METRICS))


def all_tables() -> dict[str, TableSchema]:
    """Return the tables that queries and rules read, by name."""
    return {**canonical_tables(), **derived_tables(), **rule_tables()}


def _metric_sections(metric: Metric, *, as_sql: bool) -> list[Section]:
    """Return what a metric holds, with its SQL where that is asked for."""
    paragraphs = metric.text.split("\n\n")[1:]
    return [
        Section((Heading(metric.name), Paragraph(metric.summary))),
        *(Section((Code(indent(text, "  ")) if _LIST in text else Paragraph(text),)) for text in paragraphs),
        _columns(metric.columns),
        *([Section((Code(metric.sql, "sql"),))] if as_sql else []),
    ]


def _columns(columns: tuple[Column, ...]) -> Section:
    width = max(len(column.name) for column in columns)
    blocks: list[Block] = [
        Paragraph(column.comment, label=Text(f"  {column.name:<{width}}  {column.type:<8}", "label"))
        for column in columns
    ]
    return Section(tuple(blocks))
