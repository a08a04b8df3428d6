"""`traceanalyzer memory`: how much memory a run took, and who held it; also of a snapshot or an exported timeline."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.commands.output import report_options, write_screen
from traceanalyzer.report import formats
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted

_MIB = 2**20
_LINES = 15


@click.command()
@run_options
@step_options
@report_options("For a run: a page to read, the same as Markdown, or the numbers as JSON.")
def memory(options: RunOptions, layout: str | None, output: Path | None) -> None:
    """Show the peak memory of a run, what was alive then, and what grows.

    RUN may also be a snapshot of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`), which is read without
    running anything in it, or a timeline that the profiler exported (`export_memory_timeline` to .raw.json.gz).
    """
    from traceanalyzer.answers.memory_timeline import memory_file_kind

    path = options.path
    kind = memory_file_kind(path) if isinstance(path, Path) else None
    if kind == "snapshot" and isinstance(path, Path):
        _show_snapshot(path)
    elif kind == "timeline" and isinstance(path, Path):
        _show_timeline(path)
    else:
        _show_run(options, layout, output)


def _show_run(options: RunOptions, layout: str | None, output: Path | None) -> None:
    format_ = formats.chosen(layout, output, formats.SCREEN_FORMATS)
    with opened(options) as (run, activity):
        from traceanalyzer.report.screens.memory import memory_of_run

        activity.phase("adding up memory")
        answer, name = memory_of_run(run.connection), run.name
    from traceanalyzer.report.screens import memory as report

    write_screen(report, (answer, name), format_, output)


def _show_snapshot(path: Path) -> None:
    from traceanalyzer.answers.memory_snapshot import read_snapshot, snapshot_totals

    of_devices = snapshot_totals(read_snapshot(path))
    if not of_devices:
        sys.stdout.write("The snapshot lists no memory: it has neither segments nor events.\n")
    for totals in of_devices:
        _line(f"device {totals.device}", "")
        _line("reserved", _mib(totals.reserved_bytes))
        _line("allocated", _mib(totals.allocated_bytes))
        _line("fragmented", f"{_mib(totals.fragmented_bytes)}, free in segments that are partly used")
        _line("releasable", f"{_mib(totals.releasable_bytes)}, in segments that nothing uses")
        _line("rounding", _mib(totals.rounding_bytes))
        if totals.peak_bytes is not None:
            late = ", which begins late" if totals.history_begins_late else ""
            _line("peak", f"{_mib(totals.peak_bytes)} in a history of {totals.entry_count:,} events{late}")
        if totals.unreadable_count:
            _line("left out", f"{counted(totals.unreadable_count, 'size')} of no number, or of no memory")
        _list("held by", [(visible(line), size) for line, size in list(totals.lines.items())[:_LINES]])


def _show_timeline(path: Path) -> None:
    from traceanalyzer.answers.memory_timeline import CATEGORIES, read_exported_timeline, timeline_totals

    totals = timeline_totals(read_exported_timeline(path))
    _line("older", _mib(totals.older_bytes))
    _line("peak", _mib(totals.peak_bytes))
    held = sorted(zip(CATEGORIES, totals.at_peak, strict=True), key=lambda pair: -pair[1])
    _list("at the peak", [(category.replace("_", " "), size) for category, size in held])


def _list(label: str, held: list[tuple[str, int]]) -> None:
    sizes = [_mib(size) for _, size in held]
    width = max(map(len, sizes), default=0)
    for (name, _), size in zip(held, sizes, strict=True):
        _line(label, f"{size:>{width}}  {name}")
        label = ""


def _line(label: str, text: str) -> None:
    sys.stdout.write(f"{label:<12}{text}".rstrip() + "\n")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.1f} MiB"
