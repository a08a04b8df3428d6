"""`traceanalyzer store ingest`: read a run's traces into its store, and nothing else."""

from __future__ import annotations

import click

from traceanalyzer.commands.opening import RunOptions, cluster_options, opened, several_run_options
from traceanalyzer.report.inventory import query
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted


@click.command()
@several_run_options
@cluster_options
def ingest(options: RunOptions) -> None:
    """Read the traces of a run into Parquet files in its store.

    Every other command does this when it needs to. While the traces are unchanged, it costs nothing again. The first
    command that needs steps, ledger and bounds computes them.

    The store then also has `catalog.duckdb`: every table and metric as a documented view, for any DuckDB client. Later
    commands on the run renew it.
    """
    with opened(options, attribution=False, catalog=True) as (run, _):
        # With DuckDB, which `--help` can do without.
        from traceanalyzer.query.canonical import connect_canonical

        with connect_canonical(run.traces, needed={"traces", "defects"}) as connection:
            traces, events, defects = connection.execute(query("totals")).fetchall()[0]
        state = "unchanged, nothing to do" if run.reused else "read"
    click.echo(f"{counted(traces, 'trace')}, {counted(events, 'event')} {state}: {visible(str(run.root))}")
    if defects and not options.quiet:
        click.echo(
            f"{counted(defects, 'defect')} in them; `traceanalyzer info {visible(str(options.path))}` lists them",
            err=True,
        )
