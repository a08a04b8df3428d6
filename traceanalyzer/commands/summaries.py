"""Loads what a comparison takes: runs, and files of summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.commands.opening import RunOptions, opened, step_pattern_option, trust_option
from traceanalyzer.settings import NO_SETTINGS

if TYPE_CHECKING:
    from traceanalyzer.comparison.summary import Summary


def summary_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for opening runs, as `jobs`, `step_pattern`, `no_settings`, `trust` and `quiet`."""
    for decorate in reversed(
        (
            click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use at most N cores."),
            step_pattern_option,
            click.option("--no-settings", is_flag=True, help="Ignore traceanalyzer.toml."),
            trust_option,
            click.option("-q", "--quiet", is_flag=True, help="Print only the result: no progress, no notes."),
        )
    ):
        command = decorate(command)
    return command


def load_summaries(
    paths: Sequence[Path],
    *,
    jobs: int | None,
    step_pattern: str | None,
    no_settings: bool,
    trust: bool,
    quiet: bool,
) -> list[Summary]:
    """Return the captures of runs and files of summaries, in the order of their taking, then of their names."""
    from traceanalyzer.comparison.summary_file import is_summary_file, read_summaries

    summaries: list[Summary] = []
    for path in paths:
        if is_summary_file(path):
            summaries += read_summaries(path)
        else:
            names = () if no_settings else None
            options = RunOptions(path, None, jobs, False, quiet, step_pattern, names, trust)
            summaries.append(_summarize(options, no_settings=no_settings))
    return sorted(summaries, key=lambda item: (item.taken_at or "", item.label, repr(item)))


def _summarize(options: RunOptions, *, no_settings: bool) -> Summary:
    from traceanalyzer.comparison.summarizing import summarize

    with opened(options) as (run, activity):
        activity.phase("ranking findings")
        diagnosis = run.diagnose(settings=NO_SETTINGS if no_settings else None)
        activity.phase("summarizing")
        return summarize(run, diagnosis)
