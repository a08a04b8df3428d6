"""`traceanalyzer info`: what a run's traces contain, what they lack, and how far to trust them."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options
from traceanalyzer.commands.output import check_for_browser, written
from traceanalyzer.report import formats


@click.command()
@run_options
@click.option(
    "--format",
    "layout",
    type=click.Choice([*formats.RENDERERS, "json"]),
    default="terminal",
    show_default=True,
    help="A report to read, the same as Markdown or as a page for a browser, or everything as JSON.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to FILE.")
def info(options: RunOptions, layout: str, output: Path | None) -> None:
    """Show what was recorded, what is missing, and how far to trust it.

    Lists traces, ranks, devices, events, the share of GPU work that is linked to the host, defects, and metadata with
    secrets redacted.
    """
    from traceanalyzer.report.inventory import take_inventory

    check_for_browser(layout, output)
    with opened(options) as (run, activity):
        activity.phase("counting")
        inventory = take_inventory(run.connection)
        name = run.root.name or run.root.resolve().name
    with written(output) as stream:
        from traceanalyzer.report.screens import info as report

        if layout == "json":
            report.write_json(inventory, name, stream)
        else:
            formats.render(report.sections(inventory, name, verbose=options.verbose), layout, stream)
