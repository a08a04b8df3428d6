"""What commands that compare share: loading runs and files of summaries, and what a gate says."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.commands.run_options import (
    RunOptions,
    jobs_option,
    no_settings_option,
    opened,
    quiet_option,
    step_pattern_option,
    store_option,
    trust_option,
    with_options,
)
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import RunRequest
from traceanalyzer.text.visible import visible

if TYPE_CHECKING:
    from traceanalyzer.comparison.gate import GateResult
    from traceanalyzer.comparison.summary import Summary
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.remote.location import Location
    from traceanalyzer.run import Run


def summary_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for opening runs, passed as one `RunOptions` that names no run."""

    @functools.wraps(command)
    def gathered(
        store: Path | Location | None,
        jobs: int | None,
        step_pattern: str | None,
        no_settings: bool,
        trust: bool,
        quiet: bool,
        **rest: Any,
    ) -> Any:
        steps, with_settings = AttributionOptions(step_pattern), not no_settings
        request = RunRequest(inputs=(), store=store, jobs=jobs, options=steps, with_settings=with_settings, trust=trust)
        return command(run_options=RunOptions(request, quiet=quiet), **rest)

    return with_options(
        gathered,
        store_option("Folder for computed tables, with a folder for each run, or a bucket (s3://bucket/ta/)."),
        jobs_option,
        step_pattern_option,
        no_settings_option,
        trust_option,
        quiet_option,
    )


def load_summaries(paths: Sequence[Path | Location], run_options: RunOptions) -> list[Summary]:
    """Return the captures of runs and files of summaries, in the order of their taking, then of their names."""
    from traceanalyzer.comparison.summary import is_summary_file, read_summaries

    summaries: list[Summary] = []
    for path in paths:
        if isinstance(path, Path) and is_summary_file(path):
            summaries += read_summaries(path)
        else:
            summaries += _summaries(path, run_options)
    return sorted(summaries, key=lambda item: (item.taken_at or "", item.label, repr(item)))


def _summaries(path: Path | Location, run_options: RunOptions) -> Sequence[Summary]:
    """Return the summary of a run; where its ranks were recorded several times, one of each recording."""
    from traceanalyzer.comparison.loading import captures_of

    with _opened((path,), run_options) as run:
        captures = captures_of(run, lambda files: _opened(files, run_options))
    if not run_options.quiet:
        for words in captures.left_out:
            click.echo(visible(f"note: not compared: {words}"), err=True)
    return captures.summaries


@contextmanager
def _opened(paths: Sequence[Path | Location], run_options: RunOptions) -> Iterator[Run]:
    store = _store_of_run(paths[0], run_options.request.store)
    with opened(run_options.asking(inputs=tuple(paths), store=store)) as (run, activity):
        activity.phase("ranking findings")
        yield run


def _store_of_run(path: Path | Location, store: str | Path | Location | None) -> str | Path | Location | None:
    """Return the store of one run of a comparison: a folder of its own within the given one, which is a store, too."""
    if not isinstance(store, Path):
        return store
    from traceanalyzer.pipeline.finding import locate_store

    return locate_store(store, store).folder / _store_name(path)


def _store_name(path: Path | Location) -> str:
    """Return a name for the store of a run: runs of one name lie in different folders."""
    whole = str(path.resolve()) if isinstance(path, Path) else str(path).rstrip("/")
    return f"{Path(whole).name}-{hashlib.blake2b(os.fsencode(whole), digest_size=4).hexdigest()}"


def check_budgets(run: Run, diagnosis: Diagnosis) -> GateResult:
    """Return what the project's budgets say of a run; raises where it has none that a single run can keep."""
    from traceanalyzer.comparison.gate import check_run
    from traceanalyzer.comparison.loading import summarize

    budgets = run.settings_file.read().budgets
    if not any(not budget.is_relative for budget in budgets):
        unused = [visible(str(file)) for file in run.settings_file.ignored]
        raise TraceAnalyzerError(
            "no budget for a single run was found",
            run.settings_file.path or "--budgets",
            f"--trust uses {unused[0]}, which may be a stranger's"
            if unused
            else "write [budgets] into a traceanalyzer.toml above the run: docs/comparison.md",
        )
    return check_run(summarize(run, diagnosis), budgets)


def tell_gate(gate: GateResult) -> None:
    """Write every check that does not pass to standard error: a command that fails says why, also a quiet one."""
    from traceanalyzer.comparison.gate import PASSED
    from traceanalyzer.report.diff_blocks.headline import limit_words, measured_words, note

    for check in gate.checks:
        if check.state != PASSED:
            words = f"{check.state}: {check.name}: {measured_words(check)}; the limit: {limit_words(check)}"
            click.echo(visible(words + (f" ({note(check)})" if note(check) else "")), err=True)
