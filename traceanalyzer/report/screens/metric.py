"""Metrics and tables that `sql` can query: the list of all, and what one of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

from traceanalyzer.metrics import Metric
from traceanalyzer.report.blocks import Block, Code, Heading, Paragraph, Section, Text
from traceanalyzer.schema import Column, TableSchema

# A paragraph with aligned columns is a list, and keeps its lines.
_LIST = "   "


def list_sections(metrics: Mapping[str, Metric], tables: Mapping[str, TableSchema]) -> list[Section]:
    """Return every metric, and the tables below them, each with what one row is."""
    width = max(map(len, [*metrics, *tables]))
    listed = (
        ("Metrics", {name: metric.summary for name, metric in metrics.items()}),
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


def metric_sections(metric: Metric, *, as_sql: bool) -> list[Section]:
    """Return what a metric holds, with its SQL where that is asked for."""
    paragraphs = metric.text.split("\n\n")[1:]
    return [
        Section((Heading(metric.name), Paragraph(metric.summary))),
        *(Section((Code(indent(text, "  ")) if _LIST in text else Paragraph(text),)) for text in paragraphs),
        _columns(metric.columns),
        *([Section((Code(metric.sql, "sql"),))] if as_sql else []),
    ]


def table_sections(table: TableSchema) -> list[Section]:
    """Return what a table holds."""
    return [Section((Heading(table.name), Paragraph(table.comment))), _columns(table.columns)]


def _columns(columns: tuple[Column, ...]) -> Section:
    width = max(len(column.name) for column in columns)
    blocks: list[Block] = [
        Paragraph(column.comment, label=Text(f"  {column.name:<{width}}  {column.type:<8}", "label"))
        for column in columns
    ]
    return Section(tuple(blocks))
