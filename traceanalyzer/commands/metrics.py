"""`traceanalyzer metrics`: list, show and export what `sql` can query."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.help import completes, metric_names
from traceanalyzer.commands.output import check_target, force_option
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.report import formats
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted, size

if TYPE_CHECKING:
    from traceanalyzer.metrics import Metric


@click.group()
def metrics() -> None:
    """List, show and export what `sql` can query."""


@metrics.command("list")
def list_metrics() -> None:
    """List every metric and every table, each with the meaning of one row."""
    from traceanalyzer.report.screens import metric as page

    formats.render(page.list_sections(), "terminal", sys.stdout)


@metrics.command("show")
@click.argument("name", shell_complete=completes(metric_names))
@click.option("--sql", "as_sql", is_flag=True, help="Also print the metric's SQL.")
def show_metric(name: str, as_sql: bool) -> None:
    """Show the meaning of a metric or table: its rows, its definitions, and its columns."""
    from traceanalyzer.report.screens import metric as page

    formats.render(page.page(name, as_sql=as_sql), "terminal", sys.stdout)


@metrics.command("export")
@run_options
@step_options
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("metric", nargs=-1, shell_complete=completes(metric_names))
@click.option(
    "--format",
    "layout",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@force_option
def export_metrics(options: RunOptions, folder: Path, metric: tuple[str, ...], layout: str) -> None:
    """Write metrics of RUN as files into FOLDER, for notebooks and spreadsheets: all metrics, or those named.

    Replaces the files of an earlier export.
    """
    from traceanalyzer.metrics import metrics as load_metrics

    known = load_metrics()
    for name in metric:
        if name not in known:
            raise _not_exported(name, known)
    if not metric and str(folder) in known and not folder.exists():
        hint = f"traceanalyzer metrics export RUN FOLDER {folder}; or make a folder of this name first"
        raise TraceAnalyzerError("is a metric, and no folder is named to write it into", str(folder), hint)
    for name in metric or known:
        check_target(folder / f"{name}.{layout}")
    with opened(options, attribution=False) as (run, activity):
        activity.phase("computing metrics")
        files = run.export(folder, metric, layout)
    if not options.quiet:
        size_bytes = sum(file.stat().st_size for file in files.values())
        click.echo(f"{counted(len(files), 'metric')}, {size(size_bytes)}: {visible(str(folder))}")


def _not_exported(name: str, known: Mapping[str, Metric]) -> TraceAnalyzerError:
    from traceanalyzer.report.screens.metric import ALL_METRICS, all_tables
    from traceanalyzer.schema import rule_tables

    if name in rule_tables():
        return TraceAnalyzerError(
            "is a table that only rules read", name, "`traceanalyzer rules explain ID RUN` shows it"
        )
    if name in all_tables():
        hint = f'write it with `traceanalyzer sql RUN "FROM {name}" --format parquet --output FILE`'
        return TraceAnalyzerError("is a table, not a metric", name, hint)
    return TraceAnalyzerError("no such metric", name, suggestion(name, known, ALL_METRICS))
