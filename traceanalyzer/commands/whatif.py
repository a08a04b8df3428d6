"""`traceanalyzer whatif`: the step time without a cause, with faster kernels, or with operators at their roof."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.help import cause_names, completes
from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.commands.run_options import RunOptions, opened, several_run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError


@click.command()
@several_run_options
@step_options
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="CAUSE[@RANK]",
    shell_complete=completes(cause_names),
    help="Remove a cause of the time ledger, for example host.dataloader; host or dev removes all of them.",
)
@click.option(
    "--faster",
    multiple=True,
    metavar="CLASS=FACTORx",
    help="Make kernels faster, for example gemm=2x: a class, a pattern of names, or compute for all.",
)
@click.option(
    "--at-roof",
    is_flag=True,
    help="Let each operator take its floor: the least time that the device's data sheet allows (operator_floors).",
)
@report_options(
    "A page to read, the same as Markdown or as a page for a browser, or everything as JSON.",
    "answer",
)
def whatif(
    options: RunOptions,
    removed: tuple[str, ...],
    faster: tuple[str, ...],
    at_roof: bool,
    layout: str | None,
    output: Path | None,
) -> None:
    """Show the step time without a cause, with faster kernels, or with operators at the roof of the device.

    All changes apply together; --remove and --faster may be repeated. The answer is an upper bound on the saving:
    everything else stays as recorded.
    """
    from traceanalyzer.attribution.replay.what_if import Change, causes_named, parse_faster, what_if

    format_ = chosen_format(layout, output)
    if not (removed or faster or at_roof):
        raise TraceAnalyzerError(
            "no change was given", "whatif", "for example --remove host.dataloader, --faster gemm=2x, or --at-roof"
        )
    causes_named(removed)
    change = Change(tuple(dict.fromkeys(removed)), tuple(parse_faster(text) for text in faster), at_roof)
    with opened(options) as (run, activity):
        activity.phase("scanning")
        answer = what_if(run.connection, change, run.scans_of())
        name = run.name
    from traceanalyzer.report.screens import what_if as report

    write_screen(report, (answer, name), format_, output)
