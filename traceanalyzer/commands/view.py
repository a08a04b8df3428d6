"""`traceanalyzer view`: show a run in the browser, as a page or in the Perfetto UI."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.output import written, written_bytes
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.text.visible import visible

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.exports import TracePart

PAGE = "report.html"
# How much of the trace is shown on both sides of the first finding, in shares of its length.
_MARGIN = 0.35


@click.command()
@run_options
@step_options
@click.option("--perfetto", is_flag=True, help="Hand the trace, with our tracks, to https://ui.perfetto.dev.")
@click.option("--rank", type=int, metavar="N", help="With --perfetto the rank to show: by default the first finding's.")
@click.option("--at", metavar="A-B", help="With --perfetto the time to show, in ms since the trace's start: 120.5-180.")
@click.option("--no-open", is_flag=True, help="Print where to look, and open nothing.")
def view(options: RunOptions, perfetto: bool, rank: int | None, at: str | None, no_open: bool) -> None:
    """Open the report of a run as a page in the browser, or with --perfetto its trace in the Perfetto UI.

    The page is one file in the run's store; it needs no network and can be passed on. A trace goes from this machine to
    the browser on it: once, over 127.0.0.1, within a minute, without an upload.
    """
    if perfetto:
        _view_perfetto(options, rank=rank, at=at, open_browser=not no_open)
        return
    if rank is not None:
        raise TraceAnalyzerError("the page shows every rank", "--rank", "give it with --perfetto")
    if at is not None:
        raise TraceAnalyzerError("the page shows the whole run", "--at", "give it with --perfetto")
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
    from traceanalyzer.exports.perfetto_ui import has_display

    if not has_display():
        if not options.quiet:
            click.echo(
                f"no display here; from your machine: scp {visible(socket.gethostname())}:{visible(str(file))} .",
                err=True,
            )
        return
    import webbrowser

    if not webbrowser.open(file.as_uri()) and not options.quiet:
        click.echo("no browser could be started; open the file in one", err=True)


def _view_perfetto(options: RunOptions, *, rank: int | None, at: str | None, open_browser: bool) -> None:
    """Write a trace with our tracks into the store, and hand it to the Perfetto UI."""
    from traceanalyzer.commands.export import write_trace
    from traceanalyzer.exports import at_window, parts_of
    from traceanalyzer.exports.perfetto_ui import hand_over

    with opened(options) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose()
        activity.phase("writing")
        parts = parts_of(run, [rank] if rank is not None else ())
        names = [finding.trace for finding in diagnosis.findings if finding.kind != "quality"]
        part = next((part for name in names for part in parts if part.trace.trace == name), parts[0])
        chosen_ns = None if at is None else at_window(part, at, "--at").window_ns
        file = run.store / "perfetto.json.gz"
        with written_bytes(file, is_own=True) as stream:
            write_trace(run, part, diagnosis, stream, from_tables=False, plain=False)
        activity.stop()
        went_out = hand_over(
            file,
            lambda words: click.echo(words, err=True),
            visible_ns=(chosen_ns[0] - part.base_ns, chosen_ns[1] - part.base_ns)
            if chosen_ns
            else _first_place(part, diagnosis),
            open_browser=open_browser,
        )
    if not went_out:
        click.echo(f"nobody fetched it within a minute; open this file in a Perfetto UI: {file}", err=True)


def _first_place(part: TracePart, diagnosis: Diagnosis) -> tuple[int, int] | None:
    """Return where the evidence of the first finding of a trace lies, with some room, in the times of the file."""
    for finding in diagnosis.findings:
        for evidence in finding.evidence:
            if finding.trace == part.trace.trace and {"start_ns", "dur_ns"} <= set(evidence.columns) and evidence.rows:
                row = dict(zip(evidence.columns, evidence.rows[0], strict=True))
                if isinstance(row["start_ns"], int) and isinstance(row["dur_ns"], int):
                    at_ns, room_ns = row["start_ns"] - part.base_ns, int(row["dur_ns"] * _MARGIN)
                    return at_ns - room_ns, at_ns + row["dur_ns"] + room_ns
    return None
