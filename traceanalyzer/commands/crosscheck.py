"""`traceanalyzer crosscheck`: our numbers beside those of Holistic Trace Analysis, with what makes them differ."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options
from traceanalyzer.commands.output import written


@click.command()
@run_options
@click.option(
    "--format",
    "layout",
    type=click.Choice(["terminal", "csv"]),
    default="terminal",
    show_default=True,
    help="A page to read, or one line a number.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to FILE.")
def crosscheck(options: RunOptions, layout: str, output: Path | None) -> None:
    """Hold numbers against those of Holistic Trace Analysis (HTA), which has to be installed.

    HTA reads every PyTorch trace of the run anew; large ones take it long. A difference is explained only if our own
    numbers become HTA's once what HTA is known to do differently is switched on.
    """
    from traceanalyzer.crosscheck import crosscheck as compare
    from traceanalyzer.crosscheck import require_hta

    require_hta()  # before the run is read
    with opened(options) as (run, activity):
        comparisons = compare(run, lambda trace: activity.phase(f"HTA reads {trace}"))
    with written(output) as stream:
        from traceanalyzer.report import crosscheck as report

        if layout == "csv":
            report.write_csv(comparisons, stream)
        else:
            report.write(comparisons, stream)
