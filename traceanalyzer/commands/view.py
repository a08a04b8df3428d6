"""`traceanalyzer view`: the page of a run in a browser."""

from __future__ import annotations

import os
import sys

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.commands.output import written
from traceanalyzer.report import formats
from traceanalyzer.report.visible import visible

PAGE = "report.html"


@click.command()
@run_options
@step_options
@click.option("--no-open", is_flag=True, help="Only write the page, and print where it is.")
def view(options: RunOptions, no_open: bool) -> None:
    """Open the report of a run as a page in the browser.

    The page is one file in the run's store; it needs no network and can be passed on.
    """
    with opened(options) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose()
        activity.phase("drawing the page")
        file = (run.store / PAGE).resolve()
        with written(file) as stream:
            formats.write_diagnosis(diagnosis, "html", stream, run=run)
    click.echo(visible(str(file)))
    if no_open:
        return
    if not has_display():
        if not options.quiet:
            click.echo(f"no display here; from your machine: scp {_host()}:{visible(str(file))} .", err=True)
        return
    import webbrowser

    if not webbrowser.open(file.as_uri()) and not options.quiet:
        click.echo("no browser could be started; open the file in one", err=True)


def has_display() -> bool:
    """Return whether a browser that is started here would be seen by the caller."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _host() -> str:
    import socket

    return visible(socket.gethostname())
