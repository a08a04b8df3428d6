"""The attribution of one device: the data of all its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.attribution.host.blocking_calls import find_blocking_calls, split_blocking_launches
from traceanalyzer.attribution.host.host_timeline import build_timelines, load_overheads
from traceanalyzer.attribution.host.launch_queue import find_full_queue
from traceanalyzer.attribution.host.loader_takes import find_loader_takes
from traceanalyzer.attribution.host.own_names import own_states
from traceanalyzer.attribution.lead_scan.events import LeadEvents, build_lead_events
from traceanalyzer.attribution.ledger.dependencies import find_dependencies
from traceanalyzer.attribution.ledger.ledger import LedgerRows, build_ledger
from traceanalyzer.attribution.matching.collective_matching import CommWaits
from traceanalyzer.attribution.records.device_ops import DeviceOps, load_device_ops, with_waits
from traceanalyzer.attribution.records.host_slices import HostSlices, load_host_slices
from traceanalyzer.attribution.records.partial_replays import with_missing_work
from traceanalyzer.attribution.steps.program_runs import SOURCE as PROGRAM_RUNS
from traceanalyzer.attribution.steps.program_runs import program_steps
from traceanalyzer.attribution.steps.recurring_launches import recurring_steps
from traceanalyzer.attribution.steps.steps import (
    DeviceStep,
    check_chosen,
    chosen_steps,
    device_steps,
    load_host_steps,
    unmarked_steps,
)
from traceanalyzer.attribution.steps.windows import Window, device_window, load_mode
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import Flags, Ints
from traceanalyzer.attribution.vocabulary.options import AttributionOptions


@dataclass(frozen=True)
class StepPieces:
    """Ledger rows cut at the bounds of steps, so that the rows of each step add up to it."""

    row: Ints  # of the ledger
    start: Ints
    dur: Ints
    step: Ints  # number of the step; NO_ROW: outside steps
    kept: Flags  # inside the analysis window


@dataclass(frozen=True)
class AttributedDevice:
    """One device of one trace with its steps, window, ledger and lead events."""

    trace_id: int
    mode: str
    ops: DeviceOps
    slices: HostSlices
    steps: tuple[DeviceStep, ...]
    window: Window
    ledger: LedgerRows
    pieces: StepPieces
    events: LeadEvents

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
        with_missing_work(con, trace_id, split_blocking_launches(ops)) for ops in load_device_ops(con, trace_id)
    ]
    devices = [with_waits(ops, waits.get((trace_id, ops.device))) for ops in launched]
    threads = np.unique(np.concatenate([ops.launch_thread[ops.linked] for ops in devices])).tolist()
    slices = load_host_slices(con, trace_id, threads)
    calls = find_blocking_calls(con, trace_id, slices, devices)
    takes = find_loader_takes(slices)
    own_names = own_states(con, options.names, slices.names)
    timelines = build_timelines(slices, calls, load_overheads(con, trace_id), own_names)
    host_steps = load_host_steps(con, trace_id, options.step_pattern)
    if host_steps.source is None and options.step_pattern is None:
        host_steps = unmarked_steps(recurring_steps(devices, slices, calls))
    mode = load_mode(con, trace_id)
    for ops in devices:
        found, source = device_steps(ops, host_steps), host_steps.source
        if options.step_pattern is None and (runs := program_steps(con, trace_id, ops)):
            found, source = runs, PROGRAM_RUNS
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
        events = build_lead_events(ops, needs, timelines, calls, takes, ledger, window, queue)
        yield AttributedDevice(
            trace_id, mode, ops, slices, steps, window, ledger, _cut_at_steps(ledger, steps, window), events
        )
