"""`traceanalyzer store`: what can be done with a store itself: fill it, also in shares for array jobs, and sweep it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.commands.run_options import (
    Activity,
    RunOptions,
    RunPath,
    cluster_options,
    no_settings_option,
    opened,
    several_run_options,
    step_pattern_option,
)
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location
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


@click.command()
@several_run_options
@click.option("--index", type=click.IntRange(min=0), required=True, metavar="I", help="Number of this part, from 0 on.")
@click.option("--of", "of", type=click.IntRange(min=1), required=True, metavar="N", help="Number of parts.")
@step_pattern_option
@no_settings_option
def part(options: RunOptions, index: int, of: int, step_pattern: str | None, no_settings: bool) -> None:
    """Do one of N parts of the work on a run, side by side with the others, in a store that they share.

    For Slurm arrays and Kubernetes indexed jobs (docs/scale.md). A part reads every N-th file. Once all files are read,
    it attributes every N-th trace: so run the array twice. Then `diagnose` with the same --store does what is left.
    What is done is not done again.
    """
    from traceanalyzer.pipeline.planning import Share, do_part

    if index >= of:
        raise TraceAnalyzerError(f"there is no part {index} of {of}", "--index", "parts are numbered from 0 on")
    with Activity(enabled=sys.stderr.isatty() and not options.quiet) as activity:
        attributes = AttributionOptions(step_pattern)
        request = replace(options.request, report=activity.read, options=attributes, with_settings=not no_settings)
        done = do_part(request, Share(index, of))
    for error in done.unreadable:
        hint = f" ({visible(error.hint)})" if error.hint else ""
        click.echo(f"warning: left out {visible(str(error))}{hint}", err=True)
    click.echo(f"part {index} of {of}: {counted(done.read, 'file')} read, {done.was_there:,} in the store already")
    if done.missing:
        click.echo(
            f"{counted(done.missing, 'file')} of other parts not read yet: traces are attributed once all are; "
            "run the parts again"
        )
    else:
        click.echo(
            f"all files of the run are read: {counted(done.attributed, 'trace')} attributed, "
            f"{done.was_attributed:,} in the store already"
        )


@click.group()
def store() -> None:
    """Fill and look after a store: the place of computed tables that --store names."""


store.add_command(ingest)
store.add_command(part)


@store.command()
@click.argument("place", type=RunPath(), metavar="STORE")
def sweep(place: Path | Location) -> None:
    """Remove what killed commands left in a store, and nothing that a command may still use.

    STORE is a folder, or a place in a bucket, such as s3://bucket/ta/. There, attempts that were not finished within a
    day go, those that another one replaced, and what ranks left for a run that is attributed since; of a folder, what
    no process writes any more. So it can run at any time, for example every night.
    """
    from traceanalyzer.pipeline.finding import is_own_store, locate_store

    if isinstance(place, Path) and not is_own_store(place):
        hint = "give what --store was given, or RUN/.traceanalyzer"
        raise TraceAnalyzerError("holds no store that you made there", place, hint)
    opened_store = locate_store(place, place).open()
    count = opened_store.sweep()
    click.echo(f"{counted(count, 'unfinished folder')} removed from {visible(str(opened_store.folder))}")
    if opened_store.shared is not None:
        from traceanalyzer.store.shared_store import sweep

        swept = sweep(opened_store.shared)
        size = f"{swept.size_bytes / 1e6:,.1f} MB"
        click.echo(f"{counted(swept.object_count, 'object')} of {size} removed from {visible(str(place))}")
