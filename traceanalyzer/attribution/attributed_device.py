"""The attribution of one device: the data of all its tables.

The host slice or GPU op to blame for a ledger row has names that can be found in a trace viewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import numpy as np
from msgspec import Struct

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.attribution.columns import CODE, HOST, NO_ROW, Flags, Ints, Texts, named, optional
from traceanalyzer.attribution.host.blocking_calls import find_blocking_calls
from traceanalyzer.attribution.host.host_states import own_states
from traceanalyzer.attribution.host.host_timeline import build_timelines, load_overheads
from traceanalyzer.attribution.host.queues import find_batch_fetches, find_full_queue
from traceanalyzer.attribution.ledger.dependencies import find_dependencies
from traceanalyzer.attribution.ledger.ledger import LedgerRows, build_ledger
from traceanalyzer.attribution.matching_collectives import CommWaits
from traceanalyzer.attribution.records.device_ops import DeviceOps, load_device_ops, split_blocking_launches, with_waits
from traceanalyzer.attribution.records.host_slices import HostSlices, load_host_slices
from traceanalyzer.attribution.replay.events import ReplayEvents, build_replay_events
from traceanalyzer.attribution.steps.steps import (
    DeviceStep,
    check_chosen,
    chosen_steps,
    device_steps,
    load_host_steps,
    unmarked_steps,
)
from traceanalyzer.attribution.steps.windows import Window, device_window, load_mode

_HOST_BUCKETS = np.asarray([CODE[name] for name in HOST])
# Other tools than PyTorch give the ranges that they write no category.
_RANGES = ("annotation", "other")
_STEP = "ProfilerStep#"
_REPLAYS = """
FROM canonical.host_slices
WHERE trace_id = $trace_id AND category IN ('runtime', 'driver') AND contains(name, 'GraphLaunch')
LIMIT 1
"""
# No program nests as deep; a file may say that one does.
_MOST_LEVELS = 1_000


def blame_columns(device: AttributedDevice, rows: Ints) -> dict[str, Any]:
    """Return whom some rows of a device's ledger blame, as columns of `ledger_rows`; unknown names are NULL."""
    ops, slices = device.ops, device.slices
    blame = device.ledger.blame[rows]
    of_op = device.ledger.blames_op[rows] & (blame != NO_ROW)
    of_slice = ~device.ledger.blames_op[rows] & (blame != NO_ROW)
    op_row, slice_row = np.where(of_op, blame, NO_ROW), np.where(of_slice, blame, NO_ROW)
    around = [
        np.where(of_op, slices.rows_of(ids)[op_row], NO_ROW)
        for ids in (ops.cpu_op_id, ops.annotation_id, ops.python_id)
    ]
    of_slices = (slices.op_id, slices.annotation_id, slices.python_id)
    around = [
        np.where(of_slice, _own_or_around(slices, slice_row, category, ids), rows_around)
        for rows_around, ids, category in zip(around, of_slices, ("cpu_op", "annotation", "python"), strict=True)
    ]
    is_bare = (blame == NO_ROW) & np.isin(device.ledger.bucket[rows], _HOST_BUCKETS)
    bare = np.flatnonzero(is_bare)
    around[1][bare] = _annotations_at(device, rows[bare])
    op, annotation, python = (_names(slices, rows_around) for rows_around in around)
    codes = np.where(of_op, len(slices.names) + ops.name.codes[op_row], NO_ROW)
    if slices.count:
        codes = np.where(of_slice, slices.name_code[slice_row], codes)
    event_id = np.where(of_op, ops.op_id[op_row], NO_ROW)
    if slices.count:
        event_id = np.where(of_slice, slices.slice_id[slice_row], event_id)
    return {
        "blame_id": optional(event_id),
        "blame_kind": named(np.where(of_op, 1, np.where(of_slice, 0, NO_ROW)), ("slice", "op")),
        "blame_name": named(codes, (*slices.names, *ops.name.names)),
        "blame_op": op,
        "blame_annotation": annotation,
        "blame_python": python,
    }


def _annotations_at(device: AttributedDevice, rows: Ints) -> Ints:
    """Return the innermost annotation around the launching thread in the middle of rows with nothing else recorded."""
    ops, slices, ledger = device.ops, device.slices, device.ledger
    found = np.full(len(rows), NO_ROW)
    if not len(rows) or not slices.count:
        return found
    linked = np.flatnonzero(ops.linked)
    starts = ops.start[linked]
    order = np.argsort(starts, kind="stable")
    following = np.searchsorted(starts[order], ledger.start[rows] + ledger.dur[rows])
    known = np.flatnonzero(following < len(linked))
    thread = ops.launch_thread[linked[order[following[known]]]]
    middle = (ledger.start[rows] + ledger.dur[rows] // 2)[known]
    is_annotation = slices.flags(
        [c in _RANGES and not n.startswith(_STEP) for c, n in zip(slices.categories, slices.names, strict=True)]
    )
    for one in np.unique(thread).tolist():
        first, last = np.searchsorted(slices.thread, [one, one + 1])
        on_thread = np.flatnonzero(thread == one)
        at = first + np.searchsorted(slices.start[first:last], middle[on_thread], side="right") - 1
        at = np.where(at >= first, at, NO_ROW)
        for _ in range(_MOST_LEVELS):
            further = (at != NO_ROW) & (~is_annotation[at] | (slices.end[at] <= middle[on_thread]))
            if not further.any():
                found[known[on_thread]] = at
                break
            at[further] = slices.parent[at[further]]
    return found


def _own_or_around(slices: HostSlices, rows: Ints, category: str, around_id: Ints) -> Ints:
    """Return each slice itself if it has a category, else the slice of that category around it."""
    if not slices.count:
        return rows
    is_own = slices.flags([c == category for c in slices.categories], rows)
    found: Ints = np.where(rows == NO_ROW, NO_ROW, np.where(is_own, rows, slices.rows_of(around_id[rows])))
    return found


def _names(slices: HostSlices, rows: Ints) -> Texts:
    missing = rows == NO_ROW
    codes = slices.name_code[rows] if slices.count else rows
    return named(np.where(missing, NO_ROW, codes), slices.names)


class StepPieces(Struct, frozen=True):
    """Ledger rows cut at the bounds of steps, so that the rows of each step add up to it."""

    row: Ints  # of the ledger
    start: Ints
    dur: Ints
    step: Ints  # number of the step; NO_ROW: outside steps
    kept: Flags  # inside the analysis window


class AttributedDevice(Struct, frozen=True):
    """One device of one trace with its steps, window, ledger and events of the replay."""

    trace_id: int
    mode: str
    ops: DeviceOps
    slices: HostSlices
    steps: tuple[DeviceStep, ...]
    window: Window
    ledger: LedgerRows
    pieces: StepPieces
    events: ReplayEvents

    @property
    def kept(self) -> tuple[DeviceStep, ...]:
        """Return the steps in the analysis window."""
        return tuple(step for step in self.steps if step.drop_reason is None)


def _cut_at_steps(rows: LedgerRows, steps: tuple[DeviceStep, ...], window: Window) -> StepPieces:
    spans = [(s.start, s.end, s.host.number) for s in steps if s.start is not None and s.end is not None]
    spans = [span for span in spans if span[1] > span[0]]
    edges = np.unique(np.asarray([t for start, end, _ in spans for t in (start, end)], dtype=np.int64))
    row_end = rows.start + rows.dur
    first = np.searchsorted(edges, rows.start, side="right")
    cuts = np.searchsorted(edges, row_end, side="left") - first
    pieces = cuts + 1
    row = np.repeat(np.arange(len(rows.start)), pieces)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    padded = np.append(edges, 0)
    start = np.where(nth == 0, rows.start[row], padded[first[row] + nth - 1])
    end = np.where(nth == cuts[row], row_end[row], padded[np.minimum(first[row] + nth, len(edges))])
    step = np.full(len(row), NO_ROW)
    for low, high, number in spans:
        step[np.searchsorted(start, low) : np.searchsorted(start, high)] = number
    return StepPieces(row, start, end - start, step, (start >= window.start) & (start < window.end))


def attribute_trace(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    options: AttributionOptions,
    waits: Mapping[tuple[int, int], CommWaits],
) -> Iterator[AttributedDevice]:
    """Attribute every device of a trace; `waits` holds the waits in collectives by trace and device."""
    launched = [
        _with_missing_work(con, trace_id, split_blocking_launches(ops)) for ops in load_device_ops(con, trace_id)
    ]
    devices = [with_waits(ops, waits.get((trace_id, ops.device))) for ops in launched]
    threads = np.unique(np.concatenate([ops.launch_thread[ops.linked] for ops in devices])).tolist()
    slices = load_host_slices(con, trace_id, threads)
    calls = find_blocking_calls(con, trace_id, slices, devices)
    takes = find_batch_fetches(slices)
    own_names = own_states(con, options.names, slices.names)
    timelines = build_timelines(slices, calls, load_overheads(con, trace_id), own_names)
    host_steps = load_host_steps(con, trace_id, options.step_pattern)
    if host_steps.source is None and options.step_pattern is None:
        from traceanalyzer.attribution.steps.recurring_launches import recurring_steps

        host_steps = unmarked_steps(recurring_steps(devices, slices, calls))
    mode = load_mode(con, trace_id)
    for ops in devices:
        found, source = device_steps(ops, host_steps), host_steps.source
        if options.step_pattern is None and (ops.of_program.any() or source in (None, "launches")):
            from traceanalyzer.attribution.steps.recurring_launches import device_steps_without_marks

            own, shown_by = device_steps_without_marks(con, trace_id, ops)
            found, source = (own, shown_by) if own else (found, source)
        steps = chosen_steps(found, options.steps)
        check_chosen(steps, options.steps, ops.device)
        window = device_window(ops, steps, source, mode)
        begins = [
            (step.first_op, step.host.start)
            for step in steps
            if step.first_op is not None and not ops.of_program[step.first_op]
        ]
        needs = find_dependencies(con, trace_id, ops, calls, begins)
        queue = find_full_queue(ops)
        ledger = build_ledger(ops, needs, timelines, calls, window.latency, queue.waited, window.start)
        events = build_replay_events(ops, needs, timelines, calls, takes, ledger, window, queue)
        yield AttributedDevice(
            trace_id, mode, ops, slices, steps, window, ledger, _cut_at_steps(ledger, steps, window), events
        )


def _with_missing_work(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> DeviceOps:
    """Return ops with what is missing of replays of graphs that were recorded in part or not at all."""
    if not con.execute(_REPLAYS, {"trace_id": trace_id}).fetchall():
        return ops
    from traceanalyzer.attribution.records.partial_replays import with_missing_work

    return with_missing_work(con, trace_id, ops)
