"""`traceanalyzer metrics crosscheck`: our numbers beside those of Holistic Trace Analysis, and why they differ."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, several_run_options
from traceanalyzer.commands.output import chosen_format, report_options, written
from traceanalyzer.report import formats

FORMATS = (*formats.RENDERERS, "csv")


@click.command()
@several_run_options
@report_options(
    FORMATS, "A page to read, the same as Markdown or as a page for a browser, or one line for each number."
)
def crosscheck(options: RunOptions, layout: str | None, output: Path | None) -> None:
    """Compare with the numbers of Holistic Trace Analysis (HTA), which comes with the extra `hta`.

    HTA reads every PyTorch trace of the run again, which takes long for large traces. A difference counts as explained
    only if our own computation returns HTA's number when HTA's known behaviour is switched on.
    """
    format_ = chosen_format(layout, output, FORMATS)
    from traceanalyzer.hta.crosscheck import crosscheck as compare
    from traceanalyzer.hta.crosscheck import require_hta

    require_hta()  # before the run is read
    with opened(options) as (run, activity):
        comparisons = compare(run, lambda trace: activity.phase(f"HTA reads {trace}"))
    with written(output) as stream:
        from traceanalyzer.report.screens import crosscheck as report

        if format_ == "csv":
            report.write_csv(comparisons, stream)
        else:
            formats.render(report.sections(comparisons), format_, stream)
