"""`traceanalyzer memory`: how much memory a run took, and who held it; also of a snapshot or an exported timeline."""

from __future__ import annotations

from pathlib import Path

import click

from traceanalyzer.commands.output import chosen_format, report_options, write_screen
from traceanalyzer.commands.run_options import RunOptions, opened, run_options, step_options


@click.command()
@run_options
@step_options
@report_options("A page to read, the same as Markdown, or the numbers as JSON.")
def memory(options: RunOptions, layout: str | None, output: Path | None) -> None:
    """Show the peak memory of a run, what was alive then, and what grows.

    RUN may also be a snapshot of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`), which is read without
    running anything in it, or a timeline that the profiler exported (`export_memory_timeline` to .raw.json.gz).
    """
    from traceanalyzer.answers.memory_timeline import memory_file_kind

    path = options.path
    format_ = chosen_format(layout, output)
    kind = memory_file_kind(path) if isinstance(path, Path) else None
    if kind is None or not isinstance(path, Path):
        _show_run(options, format_, output)
    else:
        _show_file(path, kind, format_, output)


def _show_run(options: RunOptions, format_: str, output: Path | None) -> None:
    with opened(options) as (run, activity):
        from traceanalyzer.report.screens.memory import memory_of_run

        activity.phase("adding up memory")
        answer, name = memory_of_run(run.connection), run.name
    from traceanalyzer.report.screens import memory as report

    write_screen(report, (answer, name), format_, output)


def _show_file(path: Path, kind: str, format_: str, output: Path | None) -> None:
    from traceanalyzer.answers.memory_snapshot import totals_of_file
    from traceanalyzer.answers.memory_timeline import read_exported_timeline, timeline_totals
    from traceanalyzer.report.screens import memory_file

    totals = totals_of_file(path) if kind == "snapshot" else timeline_totals(read_exported_timeline(path))
    write_screen(memory_file, (totals, path.name), format_, output)
