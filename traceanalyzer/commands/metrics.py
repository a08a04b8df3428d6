"""`traceanalyzer metrics`: what can be asked of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError, suggestion

if TYPE_CHECKING:
    from traceanalyzer.engine import Metric
    from traceanalyzer.report.page import Page
    from traceanalyzer.schema import Table

ALL_METRICS = "`traceanalyzer metrics list` names all"


@click.group()
def metrics() -> None:
    """List, show and export what `sql` can query."""


@metrics.command("list")
def list_metrics() -> None:
    """List every metric, and the tables below them, each with what one row is."""
    from traceanalyzer.engine import metrics as load_metrics
    from traceanalyzer.report.page import Page

    page = Page(sys.stdout)
    known = load_metrics()
    tables = {name: table for name, table in _tables().items() if name not in known}
    width = max(map(len, [*known, *tables]))
    for title, rows in (
        ("Metrics", {name: metric.summary for name, metric in known.items()}),
        ("Tables below them", {name: table.comment.split(". ")[0].rstrip(".") + "." for name, table in tables.items()}),
    ):
        page.line((title, "bold"))
        for name, summary in sorted(rows.items()):
            page.paragraph(summary, label=(f"  {name:<{width}}  ", "cyan"))
        page.blank()
    page.line(("`traceanalyzer metrics show NAME` lists columns; `traceanalyzer sql RUN` asks.", "dim"))


@metrics.command("show")
@click.argument("name")
@click.option("--sql", "as_sql", is_flag=True, help="Print the metric's SQL too.")
def show_metric(name: str, as_sql: bool) -> None:
    """Show what a metric or table holds: what a row is, what its words mean, and its columns."""
    from traceanalyzer.engine import metrics as load_metrics
    from traceanalyzer.report.page import Page

    page = Page(sys.stdout)
    known, tables = load_metrics(), _tables()
    page_name = name.removeprefix("canonical.").removeprefix("attribution.")
    if name in known:
        _write_metric(page, known[name], as_sql=as_sql)
    elif page_name in tables:
        _write_table(page, tables[page_name])
    else:
        raise _unknown(name, known, tables)


@metrics.command("export")
@run_options
@step_options
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("metric", nargs=-1)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="How to write them.",
)
def export_metrics(options: RunOptions, folder: Path, metric: tuple[str, ...], layout: str) -> None:
    """Write metrics of RUN, all unless some are named, as files into FOLDER for notebooks and spreadsheets.

    Files of an earlier export are replaced.
    """
    from traceanalyzer.engine import metrics as load_metrics

    known = load_metrics()
    for name in metric:
        if name not in known:
            raise _not_exported(name, known)
    with opened(options, attribution=False) as (run, activity):
        activity.phase("computing metrics")
        files = run.export(folder, metric, layout)
    if not options.quiet:
        size_bytes = sum(file.stat().st_size for file in files.values())
        click.echo(f"{len(files)} metric{'' if len(files) == 1 else 's'}, {size_bytes / 1e6:,.1f} MB: {folder}")


def _write_metric(page: Page, metric: Metric, *, as_sql: bool) -> None:
    page.line((metric.name, "bold"))
    page.paragraph(metric.summary)
    rest = metric.text.removeprefix(metric.summary).strip()
    for paragraph in rest.split("\n\n") if rest else ():
        page.blank()
        page.paragraph(paragraph)
    page.blank()
    _write_columns(page, [(column.name, column.type, column.comment) for column in metric.columns])
    if as_sql:
        page.blank()
        page.code(metric.sql, indent=0)


def _write_table(page: Page, table: Table) -> None:
    page.line((table.name, "bold"))
    page.paragraph(table.comment)
    page.blank()
    _write_columns(page, [(c.name, c.type, c.comment) for c in table.columns])


def _write_columns(page: Page, columns: list[tuple[str, str, str]]) -> None:
    width = max(len(name) for name, _, _ in columns)
    for name, kind, comment in columns:
        page.paragraph(comment, label=(f"  {name:<{width}}  {kind:<8}  ", "cyan"))


def _tables() -> dict[str, Table]:
    import traceanalyzer
    from traceanalyzer.schema import canonical_tables, load_tables

    return {**canonical_tables(), **load_tables(Path(traceanalyzer.__file__).parent / "attribution")}


def _not_exported(name: str, known: Mapping[str, Metric]) -> TraceAnalyzerError:
    if name in _tables():
        hint = f'write it with `traceanalyzer sql RUN "FROM {name}" --format parquet --output FILE`'
        return TraceAnalyzerError("is a table and no metric", name, hint)
    return TraceAnalyzerError("no such metric", name, suggestion(name, known, ALL_METRICS))


def _unknown(name: str, known: Mapping[str, Metric], tables: Mapping[str, Table]) -> TraceAnalyzerError:
    return TraceAnalyzerError("no such metric or table", name, suggestion(name, [*known, *tables], ALL_METRICS))
