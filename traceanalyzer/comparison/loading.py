"""Comparisons for Python: runs and files of summaries in, a difference out.

The captures of a run: each recording of its ranks is one, where a rank was recorded several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.comparison.comparing import Diff, compare
from traceanalyzer.comparison.sides import DEFAULT_COMPARE_OPTIONS, CompareOptions
from traceanalyzer.comparison.summarizing import summarize
from traceanalyzer.comparison.summary import Summary, is_summary_file, read_summaries
from traceanalyzer.run import Run, open_run

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Run


# Opens some files of a run as a run of their own.
Reopen = Callable[[Sequence[Path]], AbstractContextManager["Run"]]


@dataclass(frozen=True)
class RunCaptures:
    """The summaries of a run's captures, and in words which recordings are none."""

    summaries: tuple[Summary, ...]
    left_out: tuple[str, ...] = ()


def captures_of(run: Run, reopen: Reopen) -> RunCaptures:
    """Return one summary of a run; where its ranks were recorded several times, one of each recording.

    Recordings of other work than those that are judged are left out: they are no captures of one configuration.
    """
    diagnosis = run.diagnose()
    files = _files_of_recordings(run, diagnosis)
    if not files:
        return RunCaptures((summarize(run, diagnosis),))
    summaries = []
    for of_one in files:
        with reopen(of_one) as recording:
            summaries.append(summarize(recording, recording.diagnose()))
    left_out = tuple(f"{item.trace}: {item.apart_because}" for item in diagnosis.recordings if not item.is_judged)
    return RunCaptures(tuple(summaries), tuple(dict.fromkeys(left_out)))


def _files_of_recordings(run: Run, diagnosis: Diagnosis) -> list[tuple[Path, ...]]:
    """Return the files of each recording; none where a rank was recorded less often, or files hold several."""
    rows = run.connection.execute(
        "SELECT session, path, recording_count, trace FROM recordings JOIN canonical.traces USING (trace_id, trace) "
        "ORDER BY trace_id"
    ).fetchall()
    paths = [Path(path) for _, path, _, _ in rows]
    counts = {count for _, _, count, _ in rows}
    if len(counts) != 1 or counts == {1} or len(set(paths)) < len(paths) or not all(map(Path.is_file, paths)):
        return []
    unjudged = {item.trace for item in diagnosis.recordings if not item.is_judged}
    files: dict[int, list[Path]] = {}
    for path, (session, _, _, trace) in zip(paths, rows, strict=True):
        if trace not in unjudged:
            files.setdefault(session, []).append(path)
    return [tuple(files[session]) for session in sorted(files)]


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
