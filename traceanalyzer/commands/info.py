"""`traceanalyzer info`: what a run's traces contain, what they lack, and how far to trust them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.commands.run_options import RunOptions, opened, several_run_options


@click.command()
@several_run_options
@report_options("A page to read, the same as Markdown or as a page for a browser, or everything as JSON.")
@click.option("--anonymous", is_flag=True, help="As JSON for a bug report: no names, paths, hosts or texts of files.")
def info(options: RunOptions, layout: str | None, output: Path | None, anonymous: bool) -> None:
    """Show what was recorded, what is missing, and how far to trust it.

    Lists traces, ranks, devices, events, the share of GPU work that is linked to the host, defects, and metadata with
    secrets redacted.
    """
    format_ = chosen_format(layout, output)
    if anonymous and (layout or output):
        raise click.UsageError("--anonymous writes JSON to standard output; it goes with neither --format nor --output")
    from traceanalyzer.report.inventory import take_inventory

    with opened(options, shows_left_out=True) as (run, activity):
        activity.phase("counting")
        inventory = take_inventory(run.connection, run.left_out)
        name = run.name
    if anonymous:
        from traceanalyzer.report.inventory import anonymous as without_names

        click.echo(json.dumps(without_names(inventory), indent=1))
        return
    from traceanalyzer.report.screens import info as report

    write_screen(report, (inventory, name), format_, output, verbose=options.verbose)
