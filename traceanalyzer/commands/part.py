"""`traceanalyzer store part`: a share of a run's work, for array jobs."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from traceanalyzer.commands.activity import Activity
from traceanalyzer.commands.opening import RunOptions, no_settings_option, several_run_options, step_pattern_option
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted


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
    from traceanalyzer.attribution.options import AttributionOptions
    from traceanalyzer.opening.parts import Share, do_part

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
