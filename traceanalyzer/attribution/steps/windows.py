"""The analysis window of a device, and whether its bounds can be trusted."""

from __future__ import annotations

import duckdb
import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import CODE, Ints, rows_of_each
from traceanalyzer.attribution.records.device_ops import DeviceOps, queued_before
from traceanalyzer.attribution.steps.steps import DeviceStep

MIN_LINK_SHARE = 0.9
# Of a device that computes for this share of its window, missing launches can explain only the small rest.
BUSY_WITHOUT_LINKS_SHARE = 0.9
# Forward to backward and back is two changes per step; many more changes mean two threads at once.
THREAD_CHANGES_A_STEP = 2
MAX_THREAD_CHANGE_SHARE = 0.05
MIN_THREAD_CHANGES = 8
# A small model launches few kernels in each pass, and may accumulate the gradients of many passes before an update.
MAX_THREAD_CHANGE_SHARE_IN_TRAINING = 0.25
# The latency is measured if this many kernels started on an idle device.
MIN_LATENCY_SAMPLES = 20
DEFAULT_LATENCY_NS = 5_000
MAX_LATENCY_NS = 20_000

# As conditions of a scan, functions of names are asked once a name of the file; as columns, once a slice.
_MODE_QUERY = """
SELECT
  EXISTS (
    FROM canonical.host_slices
    WHERE trace_id = $trace_id
      AND (
        STARTS_WITH(name, 'autograd::engine::evaluate_function') OR STARTS_WITH(name, 'Optimizer.step#')
        OR (
          category = 'cpu_op' AND CONTAINS(name, 'ackward')
          AND REGEXP_MATCHES(name, 'Backward[0-9]*$|^aten::[a-z0-9_]+_backward')
        )
      )
  ) AS trains,
  EXISTS (
    FROM canonical.host_slices
    WHERE trace_id = $trace_id
      AND (category = 'cpu_op' OR STARTS_WITH(name, 'execute_context_') OR STARTS_WITH(name, 'step['))
  ) AS operates
"""
# Kernels of optimizers and of gradients, where the host's part was not recorded or names none of them. Gradients of
# inputs are left out: a transposed convolution runs their kernels in the forward pass.
_TRAINING_KERNELS_QUERY = r"""
SELECT COALESCE(BOOL_OR(REGEXP_MATCHES(
    name,
    '(?i)multi_tensor_apply_kernel.*(Adam|SGD|Lamb|FusedOptimizer)|adam_cuda_kernel|\bkOptimizer|wgrad'
    || '|_bprop_|flash_bwd|fmha_(cutlassB|bwd)|GammaBetaBackward|layer_?norm_grad|softmax_warp_backward|bn_bw_'
)), FALSE)
-- As a condition, it would be asked for each kernel, ahead of DISTINCT.
FROM (SELECT DISTINCT name FROM canonical.gpu_ops WHERE trace_id = $trace_id AND kind = 'kernel')
"""


class Window(Struct, frozen=True):
    """The time that all shares and bounds refer to."""

    start: int
    end: int
    step_count: int
    source: str | None
    host_start: int | None  # of the first step before it; None: there is none
    first_row: int | None  # op at whose start the window begins; None: no steps, or it begins ahead of its first op
    measure_at_row: int | None  # op at whose start savings are measured; None: at the end of all work
    measure_scale: float
    link_share: float | None
    latency: int
    abstains: str | None
    runs_in_from: int | None = None  # host time from which on the window begins ahead of its first op; None: with it
    opening_row: int | None = None  # first op that the host launched in it
    closing_row: int | None = None  # first op that the host launched after it

    @property
    def length(self) -> int:
        return self.end - self.start


def load_mode(con: duckdb.DuckDBPyConnection, trace_id: int) -> str:
    """Return `training`, `inference` or `unknown`."""
    ((trains, operates),) = con.execute(_MODE_QUERY, {"trace_id": trace_id}).fetchall()
    if not trains:
        ((trains,),) = con.execute(_TRAINING_KERNELS_QUERY, {"trace_id": trace_id}).fetchall()
    return "training" if trains else "inference" if operates else "unknown"


def link_share(ops: DeviceOps) -> float | None:
    """Return the share of compute time whose launch is known, without ops queued before the trace and those of TPUs."""
    dur: Ints = ops.end - ops.start
    judged = ops.compute & ~queued_before(ops) & ~ops.of_program
    total = int(dur[judged].sum())
    return int(dur[judged & ops.linked].sum()) / total if total else None


def launch_latency(ops: DeviceOps) -> int:
    """Return the usual time from a launch call's end to its kernel's start on an idle device."""
    if not ops.count:
        return DEFAULT_LATENCY_NS
    busy_until = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ops.end)[:-1]])
    idle = ops.compute & ops.linked & (busy_until <= ops.launch_start)
    if int(idle.sum()) < MIN_LATENCY_SAMPLES:
        return DEFAULT_LATENCY_NS
    median = int(np.median(ops.start[idle] - ops.launch_end[idle]))
    return min(max(median, 0), MAX_LATENCY_NS)


def busiest_stream(ops: DeviceOps, window: Window) -> int:
    """Return how long the busiest stream computes within the window: all other streams may run beside it."""
    since, until = (np.clip(at, window.start, window.end)[ops.compute] for at in (ops.start, ops.end))
    stream = ops.stream[ops.compute]
    return max((_covered(since[rows], until[rows]) for _, rows in rows_of_each(stream)), default=0)


def full_device(ops: DeviceOps, window: Window) -> int:
    """Return how long kernels need the whole device within the window, however they are ordered.

    Kernels on several streams share the device: what their blocks need adds up to all of it at most.
    """
    running = ops.device_share > 0
    since, until = (np.clip(at, window.start, window.end)[running] for at in (ops.start, ops.recorded_end))
    share = ops.device_share[running]
    times = np.concatenate([since, until])
    order = np.argsort(times, kind="stable")
    needed = np.cumsum(np.concatenate([share, -share])[order])
    return int((np.minimum(needed[:-1], 1.0) * np.diff(times[order])).sum()) if len(share) else 0


def copy_time(ops: DeviceOps, window: Window, bucket: str) -> int:
    """Return how long copies in one direction run within the window: they share the link in this direction."""
    chosen = ops.producer == CODE[bucket]
    since, until = (np.clip(at, window.start, window.end)[chosen] for at in (ops.start, ops.recorded_end))
    return _covered(since, until)


def _compute_ns(ops: DeviceOps, start: int, end: int) -> int:
    """Return how long the device computes between two instants."""
    since, until = (np.clip(at, start, end)[ops.compute] for at in (ops.start, ops.end))
    return _covered(since, until)


def _covered(start: Ints, end: Ints) -> int:
    """Return the time that intervals, sorted by start, cover."""
    done = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(0, end - np.maximum(start, done)).sum())


def _abstains(
    ops: DeviceOps, share: float | None, begin: int, end: int, step_count: int, *, trains: bool
) -> str | None:
    if not ops.compute.any():
        return "not-applicable: no compute kernels"
    if ops.of_program.any():
        return None
    busy = _compute_ns(ops, begin, end) >= BUSY_WITHOUT_LINKS_SHARE * (end - begin)
    if (share is None or share < MIN_LINK_SHARE) and not busy:
        return f"low-link-rate: {100 * (share or 0.0):.0f} % of compute time has its launch in the trace"
    issued = ops.compute & ops.linked
    by_launch = np.argsort(ops.launch_start[issued], kind="stable")
    threads = ops.launch_thread[issued][by_launch]
    changed = threads[1:] != threads[:-1]
    handed_over = MIN_THREAD_CHANGES + THREAD_CHANGES_A_STEP * step_count
    # A thread takes its turn where it launches only once the calls of the thread before it have returned.
    start, returned = (at[issued][by_launch] for at in (ops.launch_start, ops.launch_end))
    takes_turns = trains and bool((start[1:][changed] >= returned[:-1][changed]).all())
    most = MAX_THREAD_CHANGE_SHARE_IN_TRAINING if takes_turns else MAX_THREAD_CHANGE_SHARE
    if int(changed.sum()) > max(handed_over, most * len(threads)):
        return "several-issuing-threads: more than one thread launches work for the device at a time"
    return None


def device_window(ops: DeviceOps, steps: tuple[DeviceStep, ...], source: str | None, mode: str) -> Window:
    """Return the analysis window of a device; `mode` is what `load_mode` says of its program."""
    trains = mode == "training"
    share = link_share(ops)
    latency = launch_latency(ops)
    kept = [step for step in steps if step.drop_reason is None]
    if not kept or kept[0].start is None or kept[-1].end is None:
        start, end = int(ops.start.min()), int(ops.end.max())
        abstains = _abstains(ops, share, start, end, 0, trains=trains)
        return Window(start, end, 0, None, None, None, None, 1.0, share, latency, abstains)
    start, end = kept[0].start, kept[-1].end
    first, measure_at, scale = kept[0].first_op, kept[-1].next_op, 1.0
    last, runs_in_from = kept[-1].first_op, kept[0].runs_in_from
    if runs_in_from is not None:
        first = None  # the host begins the step when it does, whatever is removed
    elif first is not None and measure_at is None and last is not None and ops.start[last] > ops.start[first]:
        measure_at, scale = last, (end - start) / int(ops.start[last] - ops.start[first])
    abstains = _abstains(ops, share, start, end, len(steps), trains=trains)
    before = None if steps[0] is kept[0] else steps[0].host.start
    opening, closing = (_first_launched(ops, at) for at in (kept[0].host.start, kept[-1].host.end))
    return Window(
        *(start, end, len(kept), source, before, first, measure_at, scale, share, latency, abstains),
        *(runs_in_from, opening, closing),
    )


def _first_launched(ops: DeviceOps, since: int) -> int | None:
    """Return the op that was launched first since a host time."""
    rows = np.flatnonzero(ops.linked & (ops.launch_start >= since))
    return int(rows[np.argmin(ops.launch_start[rows])]) if len(rows) else None
