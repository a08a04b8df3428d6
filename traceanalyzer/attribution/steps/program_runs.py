"""Steps of a TPU: the runs of the program that takes most of its time."""

from __future__ import annotations

import duckdb
import numpy as np

from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.attribution.steps.steps import DeviceStep, HostStep, drop_steps
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Ints

SOURCE = "programs"
# A program that ran once is no loop.
_MIN_RUNS = 2

_RUNS_QUERY = r"""
SELECT event_id, REGEXP_REPLACE(name, '\(\d+\)$', '') AS program, start_ns, start_ns + dur_ns AS end_ns
FROM canonical.async_slices
WHERE trace_id = $trace_id AND raw_category = 'XLA Modules' AND dur_ns IS NOT NULL
"""


def program_steps(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> tuple[DeviceStep, ...]:
    """Return the steps of a device that runs whole programs, each with why the window drops it, if so.

    A step begins with the first operation of a run and ends where the next step begins, so that smaller programs and
    idle time between two runs belong to the step before; the last one ends with its run.
    """
    known = np.flatnonzero(ops.of_program & (ops.run != NO_ROW))
    if not len(known):
        return ()
    rows = con.execute(_RUNS_QUERY, {"trace_id": trace_id}).fetchall()
    about = {event: (program, start, end) for event, program, start, end in rows}
    firsts, lasts, runs = _runs(ops, known)
    spent: dict[str, int] = {}
    for run, first, last in zip(runs.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        if run in about:
            spent[about[run][0]] = spent.get(about[run][0], 0) + int(ops.end[last] - ops.start[first])
    if not spent:
        return ()
    largest = max(spent, key=lambda program: (spent[program], program))
    chosen = [place for place, run in enumerate(runs.tolist()) if run in about and about[run][0] == largest]
    if len(chosen) < _MIN_RUNS:
        return ()
    steps = []
    for number, place in enumerate(chosen):
        _, host_start, host_end = about[int(runs[place])]
        first = int(firsts[place])
        following = int(firsts[chosen[number + 1]]) if number + 1 < len(chosen) else None
        end = int(ops.end[lasts[place]]) if following is None else int(ops.start[following])
        count = int(((ops.start >= ops.start[first]) & (ops.start < end)).sum())
        host = HostStep(number, f"{largest} {number}", host_start, host_end)
        steps.append(DeviceStep(host, int(ops.start[first]), end, count, False, first, following))
    return drop_steps(steps)


def _runs(ops: DeviceOps, known: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the first operation of each run, the last one to end, and the run, in the order of time."""
    order = known[np.lexsort((known, ops.run[known]))]
    runs, begin = np.unique(ops.run[order], return_index=True)
    until = np.append(begin[1:], len(order))
    firsts = order[begin]
    lasts = np.asarray(
        [order[low:high][np.argmax(ops.end[order[low:high]])] for low, high in zip(begin, until, strict=True)], np.int64
    )
    by_time = np.argsort(ops.start[firsts], kind="stable")
    return firsts[by_time], lasts[by_time], runs[by_time]
