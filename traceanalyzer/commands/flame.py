"""`traceanalyzer flame`: stacks of a run as a tree, a flame graph, or a file for other viewers."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.output import output_option, written, written_bytes
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, step_options
from traceanalyzer.report import formats

OF = ("device", "host", "idle", "memory")
FORMATS = (*formats.RENDERERS, "folded", "speedscope", "svg")
_SUFFIXES = {".folded": "folded", ".json": "speedscope", ".svg": "svg"}
DEFAULT_ROWS = 40


@click.command()
@run_options
@step_options
@click.option(
    "--of",
    "kind",
    type=click.Choice(OF),
    default="device",
    show_default=True,
    help=(
        "Time of the GPU by the stack that launched it, time of the host, time that the GPU waited by the stack it "
        "waited for, or allocated memory."
    ),
)
@click.option("--rank", type=int, metavar="N", help="Only this rank.")
@click.option(
    "--top",
    "limit",
    type=click.IntRange(min=1),
    default=DEFAULT_ROWS,
    show_default=True,
    metavar="N",
    help="Frames to print, the largest with those around them.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(FORMATS),
    show_default=formats.BY_SUFFIX.format("terminal"),
    help="A tree to read, the same as Markdown or a page, folded stacks, a file for speedscope.app, or a flame graph.",
)
@output_option("Write to FILE; x.folded, x.speedscope.json and x.svg say their format.")
def flame(
    options: RunOptions, kind: str, rank: int | None, limit: int, layout: str | None, output: Path | None
) -> None:
    """Show what cost most by stack: time of devices or of the host, idle time, or memory.

    Equal stacks of all ranks are put together, and so are equal layers of a model and steps; folded stacks and the file
    for speedscope.app keep them apart. A line has the first and the last of frames that only lead to each other.
    """
    by_suffix = _SUFFIXES.get(output.suffix) if output is not None else None
    format_ = layout or by_suffix or formats.chosen(None, output, FORMATS)
    with opened(options) as (run, activity):
        from traceanalyzer.answers.flame import folded_stacks

        activity.phase("summing")
        stacks = folded_stacks(run.connection, kind, rank)
        name = run.name
    if format_ == "folded":
        from traceanalyzer.exports.stacks import write_folded_flame

        with written_bytes(output) as binary:
            write_folded_flame(stacks, binary)
        return
    if format_ == "speedscope":
        from traceanalyzer.exports.stacks import write_speedscope_flame

        with written_bytes(output) as binary:
            write_speedscope_flame(stacks, f"{name}: {kind}", "bytes" if kind == "memory" else "nanoseconds", binary)
        return
    from traceanalyzer.answers.flame import largest_rows, put_together, tree_of
    from traceanalyzer.report.screens import flame as report

    root = tree_of(put_together(stacks))
    with written(output) as stream:
        if format_ == "svg":
            from traceanalyzer.report.screens.flame import flame_graph

            says = f"Flame graph of {kind} of {name}: {report.value_words(root.value, kind)}"
            stream.write(flame_graph(root, says, lambda value: report.value_words(value, kind)) + "\n")
        else:
            formats.render(report.sections(root, largest_rows(root, limit), kind, name, rank), format_, stream)
