"""The steps of a trace on its host and on each device, and which of them the analysis window contains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import duckdb
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution import STEP_PATTERN
from traceanalyzer.attribution.columns import Flags, Ints
from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.errors import TraceAnalyzerError

# With fewer steps the first step is kept.
WARM_UP_FROM_STEPS = 4
MIN_KEPT_STEPS = 2
# A last step with fewer ops than this share of the median was cut off (the rule of torch-tb-profiler), and so was a
# first one.
CUT_SHORT_SHARE = 0.8
# Work from before the first step delays it where it keeps the device busy. Else the step holds what it waited for.
BUSY_BEFORE_SHARE = 0.5
NOT_CHOSEN = "not chosen"

_QUERY = """
SELECT thread_id, name, start_ns, start_ns + dur_ns AS end_ns, slice_id
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND category NOT IN ('runtime', 'driver', 'python', 'os')
  AND (
    STARTS_WITH(name, 'ProfilerStep#')
    OR STARTS_WITH(name, 'Optimizer.step#')
    OR (category = 'annotation' AND (REGEXP_MATCHES(name, $pattern) OR COALESCE(raw_category = 'step_num', FALSE)))
  )
ORDER BY thread_id, start_ns, dur_ns DESC, slice_id
"""
# Traces before 2022 record the ranges of record_function as operators.
_QUERY_OF_PATTERN = """
SELECT thread_id, name, start_ns, start_ns + dur_ns AS end_ns, slice_id
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND category IN ('annotation', 'cpu_op')
  AND REGEXP_MATCHES(name, $pattern)
ORDER BY thread_id, start_ns, dur_ns DESC, slice_id
"""

_CUT_QUERY = """
SELECT event_id
FROM canonical.event_args
WHERE trace_id = $trace_id
  AND event_id IN (SELECT UNNEST($ids))
  -- As the macro is_cut, which connections do not have before a trace is attributed.
  AND (
    CONTAINS(args, '"finished"') AND args ->> '$.finished' = 'false'
    OR CONTAINS(args, '"open"') AND args ->> '$.open' = 'true'
  )
"""


class HostStep(Struct, frozen=True):
    number: int
    name: str
    start: int
    end: int
    is_cut: bool = False  # it was open when the recording stopped


class DeviceStep(Struct, frozen=True):
    """One step on one device; `start` is None if the device got no work in it or after it."""

    host: HostStep
    start: int | None
    end: int | None
    op_count: int
    is_open: bool  # nothing was launched after it, so its end is only the end of its own work
    first_op: int | None  # row of the op that begins at `start`
    next_op: int | None  # first_op of the step after it
    drop_reason: str | None = None
    runs_in_from: int | None = None  # host time from which on it begins ahead of its first op; None: with that op


class HostSteps(Struct, frozen=True):
    """The steps of a trace in order, and the source that marked them."""

    source: str | None
    steps: tuple[HostStep, ...]


_Mark = tuple[str, int, int]


class _Slice(NamedTuple):
    name: str
    start: int
    end: int
    slice_id: int


def _cut_slices(con: duckdb.DuckDBPyConnection, trace_id: int, marks: list[_Slice]) -> set[int]:
    """Return which marks were open when the recording stopped: the last ones, or ones that hold a later mark."""
    ids = [mark.slice_id for mark, after in pairwise(marks) if mark.end > after.start]
    ids += [mark.slice_id for mark in marks[-1:]]
    if not ids:
        return set()
    return {slice_id for (slice_id,) in con.execute(_CUT_QUERY, {"trace_id": trace_id, "ids": ids}).fetchall()}


def _outermost(marks: list[_Slice], cut: set[int]) -> tuple[list[_Mark], bool]:
    """Drop marks that begin inside another mark, such as a step recorded in two categories.

    A mark whose end was lost ends where the next one of its kind begins. Also return whether the last mark is open.
    """
    kept: list[_Slice] = []
    for mark in marks:
        if kept and mark.start < kept[-1].end:
            if kept[-1].slice_id not in cut or not _counts_on(kept[-1].name, mark.name):
                continue
            kept[-1] = kept[-1]._replace(end=mark.start)
        kept.append(mark)
    is_open = bool(kept) and kept[-1].slice_id in cut
    return [(mark.name, mark.start, mark.end) for mark in kept], is_open


def _counts_on(name: str, later: str) -> bool:
    """Return whether two names differ, and only in their numbers."""
    return name != later and re.sub(r"\d+", "", name) == re.sub(r"\d+", "", later)


def _busiest_thread(marks: dict[int, list[_Slice]]) -> list[_Slice]:
    chosen = max(marks, key=lambda thread: (len(marks[thread]), -thread), default=None)
    return [] if chosen is None else marks[chosen]


def numbered(marks: Sequence[_Mark]) -> tuple[HostStep, ...]:
    """Return marks as steps, with the numbers that they are named by, where these ascend."""
    # Numbers with more digits than 64 bits hold are counted instead.
    digits = [re.search(r"(?<!\d)(\d{1,18})\D*$", name) for name, _, _ in marks]
    numbers = [int(match[1]) for match in digits if match]
    if len(numbers) != len(marks) or any(b <= a for a, b in pairwise(numbers)):
        numbers = list(range(len(marks)))
    return tuple(HostStep(n, name, start, end) for n, (name, start, end) in zip(numbers, marks, strict=True))


def _between_ends(marks: list[_Mark]) -> list[_Mark]:
    """Return the spans between the ends of optimizer steps, for the optimizer that steps last in each round."""
    if not marks:
        return []
    name = marks[-1][0]
    ends = [end for mark, _, end in marks if mark == name]
    return [(name, first, last) for first, last in pairwise(ends)]


def load_host_steps(con: duckdb.DuckDBPyConnection, trace_id: int, pattern: str | None = None) -> HostSteps:
    """Find the steps of a trace: the profiler's own, else annotations of a known form, else ends of optimizer steps.

    With a pattern, the steps are the annotations that match it, and nothing else.
    """
    by_source: dict[str, dict[int, list[_Slice]]] = {"ProfilerStep": {}, "annotation": {}, "optimizer": {}}
    query = _QUERY if pattern is None else _QUERY_OF_PATTERN
    rows = con.execute(query, {"trace_id": trace_id, "pattern": pattern or STEP_PATTERN}).fetchall()
    for thread, name, start, end, slice_id in rows:
        source = "annotation"
        if pattern is None and name.startswith("ProfilerStep#"):
            source = "ProfilerStep"
        elif pattern is None and name.startswith("Optimizer.step#"):
            source = "optimizer"
        by_source[source].setdefault(thread, []).append(_Slice(name, start, end, slice_id))
    for source, by_thread in by_source.items():
        found = _busiest_thread(by_thread)
        marks, is_open = _outermost(found, _cut_slices(con, trace_id, found))
        if source == "optimizer":
            marks, is_open = _between_ends(marks[:-1] if is_open else marks), False
        if marks:
            steps = numbered(marks)
            return HostSteps(source, (*steps[:-1], replace(steps[-1], is_cut=is_open)))
    return HostSteps(None, ())


def _first_launched(ops: DeviceOps, among: Flags, host_times: list[int]) -> list[int | None]:
    """Return for each host time the row of the op that starts first among ops launched at or after it."""
    rows = np.flatnonzero(among)
    order = rows[np.argsort(ops.launch_start[rows], kind="stable")]
    # Rows are in the order of their starts.
    earliest: Ints = np.minimum.accumulate(order[::-1])[::-1]
    at = np.searchsorted(ops.launch_start[order], host_times)
    return [int(earliest[i]) if i < len(order) else None for i in at.tolist()]


def unmarked_steps(found: list[_Mark]) -> HostSteps:
    """Return recurring work as steps, for traces that mark none."""
    return HostSteps("launches" if found else None, numbered(found))


def _main_stream(ops: DeviceOps) -> Flags:
    """Return the launched compute ops of the stream that computes most, or all launched ops where none computes.

    Copies, collectives and prefetched work on other streams run ahead with the host; this stream defines the step.
    """
    compute = ops.compute & ops.linked
    if not compute.any():
        return ops.linked
    streams, index = np.unique(ops.stream, return_inverse=True)
    worked = np.bincount(index, weights=np.where(compute, ops.end - ops.start + 1, 0), minlength=len(streams))
    main: Flags = compute & (ops.stream == streams[np.argmax(worked)])
    return main


def device_steps(ops: DeviceOps, host: HostSteps) -> tuple[DeviceStep, ...]:
    """Return the steps of one device, each with why the window drops it, if so; kept steps are contiguous."""
    if not host.steps or not ops.linked.any():
        return tuple(DeviceStep(step, None, None, 0, False, None, None, "no GPU work") for step in host.steps)
    edges = [step.start for step in host.steps] + [host.steps[-1].end]
    firsts = _first_launched(ops, _main_stream(ops), edges)
    within = ops.linked
    if host.steps[-1].is_cut:
        firsts[-1] = None  # no work belongs to what came after the recording
    elif _follows_late(ops, firsts, host.steps):
        firsts[-1] = None
        within = ops.linked & (ops.launch_start < edges[-1])
    work_end = int(ops.end[within].max())
    at = np.searchsorted(np.sort(ops.launch_start[ops.linked]), edges).tolist()
    steps = []
    for i, step in enumerate(host.steps):
        first, following = firsts[i], firsts[i + 1]
        start = None if first is None else int(ops.start[first])
        end = None if first is None else work_end if following is None else int(ops.start[following])
        is_open = first is not None and following is None
        if is_open and i + 1 < len(host.steps) and host.steps[i + 1].is_cut:
            # The host was done with it, and had launched nothing since.
            end, is_open = max(work_end, host.steps[i + 1].start), False
        steps.append(DeviceStep(step, start, end, at[i + 1] - at[i], is_open, first, following))
    return _with_run_in(drop_steps(steps), ops, host.source)


def _follows_late(ops: DeviceOps, firsts: Sequence[int | None], steps: Sequence[HostStep]) -> bool:
    """Return whether the work after the last step is of something else: no step before it waited as long for the next.

    A step ends where the work of the next one begins. What is launched a whole step later and more is no next step.
    """
    first, following = firsts[-2:]
    if following is None or following == first or len(steps) <= MIN_KEPT_STEPS:
        return False
    waits = [int(ops.launch_start[at]) - step.end for step, at in zip(steps, firsts[1:], strict=True) if at is not None]
    length = float(np.median([after.start - before.start for before, after in pairwise(steps)]))
    return waits[-1] > max(length, 2 * max(waits[:-1]))


def _with_run_in(steps: tuple[DeviceStep, ...], ops: DeviceOps, source: str | None) -> tuple[DeviceStep, ...]:
    """Let the first step begin where the host begins it, or where the device is done with what was queued before.

    A later step begins with its first op, so the time ahead of that op is part of the step before. So where another
    step follows those that count, they hold a time ahead for each of them without that of the first. Steps found in
    launches begin with a launch, and have no time ahead of it.
    """
    if not steps or source == "launches" or steps[0].drop_reason is not None:
        return steps
    step, last = steps[0], [step for step in steps if step.drop_reason is None][-1]
    if last.next_op is not None and last.host != steps[-1].host:
        return steps
    if step.start is None:
        return steps
    since = step.host.start
    earlier = np.where(ops.linked, ops.launch_start < since, ops.start < step.start) & (ops.end > since)
    begins = min(step.start, int(ops.end[earlier].max(initial=since)))
    worked_ns = int((ops.end - np.maximum(ops.start, since))[earlier].sum())
    if worked_ns < BUSY_BEFORE_SHARE * (begins - since):
        begins = since
    return (replace(step, start=begins, runs_in_from=step.host.start if begins < step.start else None), *steps[1:])


def drop_steps(steps: list[DeviceStep]) -> tuple[DeviceStep, ...]:
    """Return steps with why the window drops them: no work, one that warms up, a first or last one that is cut."""
    for i, step in enumerate(steps):
        if step.start is None or step.end == step.start:
            steps[i] = replace(step, drop_reason="no GPU work")
        elif step.host.is_cut:
            steps[i] = replace(step, drop_reason="cut short")
    kept = [i for i, step in enumerate(steps) if step.drop_reason is None]
    if len(kept) > MIN_KEPT_STEPS and steps[kept[0]].op_count < CUT_SHORT_SHARE * _median_count(steps, kept[1:]):
        # The recording of the GPU began within it; it warmed up, too.
        steps[kept[0]] = replace(steps[kept[0]], drop_reason="cut short")
        kept = kept[1:]
    elif len(kept) >= WARM_UP_FROM_STEPS:
        steps[kept[0]] = replace(steps[kept[0]], drop_reason="warm-up")
        kept = kept[1:]
    if len(kept) > MIN_KEPT_STEPS and not steps[-1].host.is_cut:
        last = kept[-1]
        if steps[last].op_count < CUT_SHORT_SHARE * _median_count(steps, kept[:-1]):
            steps[last] = replace(steps[last], drop_reason="cut short")
        elif steps[last].is_open:
            steps[last] = replace(steps[last], drop_reason="end not in the trace")
    return tuple(steps)


def _median_count(steps: Sequence[DeviceStep], among: Sequence[int]) -> float:
    return float(np.median([steps[i].op_count for i in among]))


def chosen_steps(steps: tuple[DeviceStep, ...], chosen: tuple[int, int] | None) -> tuple[DeviceStep, ...]:
    """Return steps of which only those with chosen numbers count, with the times that they have among all steps."""
    if chosen is None:
        return steps
    return tuple(_chosen(step, chosen[0] <= step.host.number <= chosen[1]) for step in steps)


def check_chosen(steps: tuple[DeviceStep, ...], chosen: tuple[int, int] | None, device: int) -> None:
    """Raise TraceAnalyzerError where steps are chosen and a device has no work in any of them."""
    if chosen is None or any(step.drop_reason is None for step in steps):
        return
    first, last = chosen
    named = f"step {first}" if first == last else f"any of steps {first}-{last}"
    worked = [step.host.number for step in steps if step.drop_reason == NOT_CHOSEN]
    hint = f"it has work in steps {worked[0]} to {worked[-1]}" if worked else "no steps of it are known"
    raise TraceAnalyzerError(f"device {device} has no GPU work in {named}", "--step", hint)


def _chosen(step: DeviceStep, is_chosen: bool) -> DeviceStep:
    if step.start is None or step.end == step.start:
        return step
    return replace(
        step, drop_reason=None if is_chosen else NOT_CHOSEN, runs_in_from=step.runs_in_from if is_chosen else None
    )


MOST_SUGGESTED = 5

_MATCHES = """
SELECT COUNT(*) > 0
FROM canonical.host_slices
WHERE category IN ('annotation', 'cpu_op')
  AND REGEXP_MATCHES(name, $pattern)
"""
# Annotations that recur, by their name without numbers.
_RECURRING = r"""
SELECT ANY_VALUE(name ORDER BY start_ns)
FROM canonical.host_slices
WHERE category = 'annotation'
GROUP BY REGEXP_REPLACE(name, '\d+', '', 'g')
HAVING COUNT(*) > 1
ORDER BY SUM(dur_ns) DESC, MIN(name)
LIMIT $most
"""


def check_pattern(con: duckdb.DuckDBPyConnection, pattern: str | None) -> None:
    """Raise TraceAnalyzerError if a pattern is invalid, or matches no annotation of the run."""
    if pattern is None:
        return
    try:
        ((found,),) = con.execute(_MATCHES, {"pattern": pattern}).fetchall()
    except duckdb.InvalidInputException as error:
        raise TraceAnalyzerError(
            f"{pattern!r} is no pattern: {error}", "--step-pattern", "a regular expression over names of annotations"
        ) from error
    if found:
        return
    recurring = [name for (name,) in con.execute(_RECURRING, {"most": MOST_SUGGESTED}).fetchall()]
    hint = f"what recurs here: {', '.join(recurring)}" if recurring else "the run has no annotations that recur"
    raise TraceAnalyzerError(f"no annotation of the run matches {pattern!r}", "--step-pattern", hint)
