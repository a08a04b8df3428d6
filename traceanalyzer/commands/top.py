"""`traceanalyzer top`: what costs most, one question a word."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, step_options

WHAT = ("kernels", "operators", "modules", "layers", "lines", "ranges", "collectives", "copies", "iterations")
ORDERS = ("time", "idle", "host", "headroom", "flops", "memory")
DEFAULT_ROWS = 20


class What(click.Choice[str]):
    """What to list, also by the word for one of it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        many = {"copy": "copies", "ops": "operators"}.get(value, f"{value}s")
        if many not in WHAT and value not in WHAT and Path(value).exists():
            self.fail(f"{value!r} is a run; what to list comes first, as in `top kernels RUN`", param, ctx)
        return super().convert(many if many in WHAT else value, param, ctx)


@click.command()
@click.argument("what", type=What(WHAT), metavar="WHAT")
@run_options
@step_options
@click.option(
    "--by",
    type=click.Choice(ORDERS),
    default="time",
    show_default=True,
    help=(
        "Order by time on the GPU, or by idle time before it or because of it; operators, modules, layers and lines by "
        "time on the host; operators and modules by arithmetic operations; operators by headroom, the time above the "
        "device's roof, and by the memory that they allocate; kernels by headroom, the time that counters of Nsight "
        "Compute leave (--ncu). Ranges by idle time inside, too."
    ),
)
@click.option("--tree", is_flag=True, help="Ranges below those around them.")
@click.option("--rank", type=int, metavar="N", help="Only this rank.")
@click.option(
    "--step",
    type=int,
    metavar="N",
    help="Only this step; by default the whole analysis window, or all that was recorded.",
)
@click.option(
    "--top", "limit", type=click.IntRange(min=1), default=DEFAULT_ROWS, show_default=True, metavar="N", help="Rows."
)
@report_options("A page to read, the same as Markdown, or the numbers as JSON.")
def top(
    options: RunOptions,
    what: str,
    by: str,
    tree: bool,
    rank: int | None,
    step: int | None,
    limit: int,
    layout: str | None,
    output: Path | None,
) -> None:
    """Show what costs most: kernels, operators, modules, lines of Python, marked ranges, collectives and copies.

    WHAT is kernels, operators, modules, layers, lines, ranges, collectives, copies or iterations (of a server).
    Ranges are what the program marked: record_function, NVTX, annotations of XLA. Times are sums over calls and ranks.
    The rows come from metrics that `sql` can query; the last line names theirs.
    """
    format_ = chosen_format(layout, output)
    with opened(options) as (run, activity):
        from traceanalyzer.answers.top import top as largest

        activity.phase("summing")
        answer = largest(run.connection, what, by, rank=rank, step=step, limit=limit, tree=tree)
        name = run.name
    from traceanalyzer.report.screens import top as report

    write_screen(report, (answer, name), format_, output)
