"""Comparisons for Python: runs and files of summaries in, a difference out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from traceanalyzer.comparison.captures import captures_of
from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.options import DEFAULT_COMPARE_OPTIONS, CompareOptions
from traceanalyzer.comparison.summary import Summary
from traceanalyzer.comparison.summary_file import is_summary_file, read_summaries
from traceanalyzer.run import Run, open_run

Captures = str | Path | Summary


def diff(
    base: Captures | Sequence[Captures],
    new: Captures | Sequence[Captures],
    options: CompareOptions = DEFAULT_COMPARE_OPTIONS,
) -> Diff:
    """Return what differs between two sides, each one capture or several: runs, files of summaries, or summaries.

    `print` shows the report of the command, and a notebook shows it as Markdown. Raises TraceAnalyzerError where a run
    cannot be read.
    """
    return compare(load(base), load(new), options)


def load(captures: Captures | Sequence[Captures]) -> list[Summary]:
    """Return the summaries of captures, in their order; each recording of a rank in a run is one."""
    loaded: list[Summary] = []
    for item in [captures] if isinstance(captures, str | Path | Summary) else captures:
        if isinstance(item, Summary):
            loaded.append(item)
        elif is_summary_file(Path(item)):
            loaded += read_summaries(Path(item))
        else:
            with open_run(item) as run:
                loaded += captures_of(run, partial(_reopened, run)).summaries
    return loaded


def _reopened(run: Run, files: Sequence[Path]) -> Run:
    return open_run(list(files), store=run.shared_store or run.store)
