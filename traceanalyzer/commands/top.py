"""`traceanalyzer top`: the largest kernels, operators, collectives or copies of a run."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.commands.output import written
from traceanalyzer.report import formats

FORMATS = (*formats.RENDERERS, "json")
WHAT = ("kernels", "operators", "collectives", "copies")
DEFAULT_ROWS = 20


@click.command()
@click.argument("what", type=click.Choice(WHAT))
@run_options
@step_options
@click.option(
    "--by",
    type=click.Choice(["time", "idle", "host"]),
    default="time",
    show_default=True,
    help="Order by time on the GPU, by idle time before it or because of it, or operators by their time on the host.",
)
@click.option("--rank", type=int, metavar="N", help="Only this rank.")
@click.option("--step", type=int, metavar="N", help="Only this step; by default the whole analysis window.")
@click.option(
    "--top", "limit", type=click.IntRange(min=1), default=DEFAULT_ROWS, show_default=True, metavar="N", help="Rows."
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(FORMATS),
    show_default=formats.BY_SUFFIX.format("terminal"),
    help="A page to read, the same as Markdown, or the numbers as JSON.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to FILE.")
def top(
    options: RunOptions,
    what: str,
    by: str,
    rank: int | None,
    step: int | None,
    limit: int,
    layout: str | None,
    output: Path | None,
) -> None:
    """Show the largest kernels, operators, collectives or copies of a run.

    Times are sums over calls and ranks. The rows come from metrics that `sql` can query: kernels_by_step,
    operators_by_step, collectives_by_step and copies_by_step.
    """
    format_ = formats.chosen(layout, output, FORMATS)
    with opened(options) as (run, activity):
        from traceanalyzer.top import top as largest

        activity.phase("summing")
        answer = largest(run.connection, what, by, rank=rank, step=step, limit=limit)
        name = run.root.name or run.root.resolve().name
    with written(output) as stream:
        from traceanalyzer.report.screens import top as report

        if format_ == "json":
            report.write_json(answer, name, stream)
        else:
            formats.render(report.sections(answer, name), format_, stream)
