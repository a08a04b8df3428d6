"""`traceanalyzer export baseline`: runs as small files that a repository can keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.commands.comparing import load_summaries, summary_options
from traceanalyzer.commands.output import TargetFile, check_before_work, force_option, written
from traceanalyzer.commands.run_options import RunOptions, RunPath
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.report.blocks import Block, Heading, Section, Table, Text
from traceanalyzer.text.visible import visible
from traceanalyzer.text.words import counted, duration, gain

if TYPE_CHECKING:
    from traceanalyzer.comparison.summary import Fact, Summary
    from traceanalyzer.remote.location import Location


EXIT_BLOCKED = 3


@click.group()
def baseline() -> None:
    """Write runs as a file of summaries that diff takes, or show one: now `export baseline`."""


@baseline.command()
@click.argument("file", type=TargetFile(), callback=check_before_work)
@click.argument("runs", type=RunPath(), nargs=-1)
@click.option("--add", is_flag=True, help="Add the captures to those in FILE.")
@click.option("--label", metavar="TEXT", help="Call the captures TEXT, for example a commit.")
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the N newest captures.")
@force_option
@summary_options
def write(
    file: Path,
    runs: tuple[Path | Location, ...],
    add: bool,
    label: str | None,
    keep: int | None,
    run_options: RunOptions,
) -> None:
    """Write each RUN, a capture, as a line of FILE that `diff` takes; without a RUN, show what FILE holds.

    A line has ledger, steps, kernels, operators and findings as JSON. All captures of a file are of one configuration.
    Exits with 3, and writes nothing, where a run cannot be judged.
    """
    if not runs:
        if not file.exists():
            raise click.UsageError(f"{file} is not there to be shown; name the runs to write into it")
        show_captures(file)
        return
    from traceanalyzer.comparison.summary import read_summaries, text_of

    new = load_summaries(runs, run_options)
    blocked = next((item for item in new if item.blocked), None)
    if blocked is not None:
        words = f"error: {blocked.label}: no baseline of a run that cannot be judged: {blocked.blocked}"
        click.echo(visible(words), err=True)
        click.get_current_context().exit(EXIT_BLOCKED)
    new = [replace(item, label=label) for item in new] if label else new
    captures = [*(read_summaries(file) if add and file.exists() else []), *new]
    for item in captures[1:]:
        differing = _different_facts(captures[0].fingerprint, item.fingerprint)
        if differing:
            raise TraceAnalyzerError(
                f"{item.label} is of another configuration than {captures[0].label}: {'; '.join(differing)}",
                file,
                "captures of one file are compared as one; write it to a file of its own",
            )
    captures = captures[-keep:] if keep else captures
    with written(file) as stream:
        stream.write(text_of(captures))
    if not run_options.quiet:
        click.echo(visible(f"{file}: {counted(len(captures), 'capture')}"), err=True)


@baseline.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
def show(file: Path) -> None:
    """Show the captures in FILE: when they were taken, their step time, and their findings."""
    show_captures(file)


def show_captures(file: Path) -> None:
    """Write when the captures of a file were taken, their step time, and their findings."""
    from traceanalyzer.comparison.summary import read_summaries

    with written(None) as stream:
        formats.render(baseline_sections(read_summaries(file), file.name), "terminal", stream)


def _different_facts(first: Mapping[str, Fact], other: Mapping[str, Fact]) -> list[str]:
    """Return in what the fingerprints of two captures differ."""
    keys = sorted(first.keys() | other.keys())
    return [f"{key} {first.get(key)!r} → {other.get(key)!r}" for key in keys if first.get(key) != other.get(key)]


MOST_FINDINGS = 8


def baseline_sections(summaries: Sequence[Summary], name: str) -> tuple[Section, ...]:
    """Return the captures and their findings."""
    heading = Heading(name, (Text(counted(len(summaries), "capture"), "dim"),))
    rows = tuple(
        (
            item.label,
            item.taken_at or "–",
            _time(item),
            str(max((d.step_count for d in item.devices), default=0)),
            _gpu(item),
        )
        for item in summaries
    )
    columns = ("capture", "taken at", "step time", "steps", "GPU")
    blocks: list[Block] = [heading, Table(columns, rows, right=frozenset({2, 3}))]
    counts = Counter(finding.rule for item in summaries for finding in item.findings)
    titles = {finding.rule: finding for item in summaries for finding in item.findings}
    lines = tuple(
        (titles[rule].title, rule, f"{count} of {len(summaries)}", gain(titles[rule].saving_share or 0.0))
        for rule, count in counts.most_common(MOST_FINDINGS)
    )
    if not lines:
        return (Section(tuple(blocks)),)
    table = Table(("finding", "rule", "captures", "saving"), lines, right=frozenset({3}))
    return (Section(tuple(blocks)), Section((table,), Heading("Findings")))


def _time(item: Summary) -> str:
    slowest = max(item.devices, key=lambda device: (device.step_count > 0, device.step_ns), default=None)
    if slowest is None:
        return "–"
    return duration(slowest.step_ns) + ("" if slowest.step_count else " (no steps)")


def _gpu(item: Summary) -> str:
    names = item.fingerprint.get("gpu")
    return ", ".join(names) if isinstance(names, tuple) and names else "none: host times"
