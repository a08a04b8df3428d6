"""`traceanalyzer whatif`: how long a step would take without a cause, or with faster kernels."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.commands.output import written
from traceanalyzer.errors import TraceAnalyzerError


@click.command()
@run_options
@step_options
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="CAUSE[@RANK]",
    help="Let a cause of the time ledger cost nothing, such as host.dataloader; host or dev for all of them.",
)
@click.option(
    "--faster",
    multiple=True,
    metavar="CLASS=FACTORx",
    help="Let kernels run faster, such as gemm=2x: a class, a pattern of names, or compute for all.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    show_default=True,
    help="A page to read, or everything as JSON.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the answer to FILE.")
def whatif(
    options: RunOptions, removed: tuple[str, ...], faster: tuple[str, ...], layout: str, output: Path | None
) -> None:
    """Say how long a step would take without a cause, or with faster kernels.

    Everything named is changed at once; both options may be repeated. The answer is a bound: what is saved at most, as
    everything else stays as it was recorded.
    """
    from traceanalyzer.attribution.what_if import Change, causes_named, parse_faster, what_if

    if not removed and not faster:
        raise TraceAnalyzerError(
            "nothing is to change", "whatif", "for example --remove host.dataloader, or --faster gemm=2x"
        )
    causes_named(removed)
    change = Change(tuple(dict.fromkeys(removed)), tuple(parse_faster(text) for text in faster))
    with opened(options) as (run, activity):
        activity.phase("scanning")
        answer = what_if(run.connection, change)
        name = run.root.name or run.root.resolve().name
    with written(output) as stream:
        from traceanalyzer.report import what_if as report

        if layout == "json":
            report.write_json(answer, name, stream)
        else:
            report.write(answer, name, stream)
