"""Launch calls that waited because the device's launch queue was full."""

from __future__ import annotations

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.device_ops import DeviceOps

# A channel of CUDA holds about a thousand launches: a long call with this many outstanding waited for room.
FULL_QUEUE_MIN_OPS = 512
FULL_QUEUE_MIN_NS = 40_000
# The shortest calls did not wait. Those that took longer may have, and twice as long is seldom for another reason.
UNHINDERED_QUANTILE = 0.01
JITTER_NS = 1_000
WAITED_MIN_NS = 5_000
# Queues of other depths show themselves: most launches that take long have as many outstanding as there ever are.
FULL_QUEUE_SHARE = 0.9
FULL_QUEUE_MIN_LAUNCHES = 10
FULL_QUEUE_MIN_DEPTH = 8

_LONG_AGO = int(np.iinfo(np.int64).min)
_NEVER = int(np.iinfo(np.int64).max)


def full_queue_launches(ops: DeviceOps) -> tuple[Flags, Ints]:
    """Return which ops' launch calls waited for room in the queue, and the op whose end made room (NO_ROW: none).

    Where the depth of the queue has shown itself, all launches at that depth did that took longer than is usual.
    """
    full = np.zeros(ops.count, np.bool_)
    freed = np.full(ops.count, NO_ROW)
    linked = np.flatnonzero(ops.linked)
    queued = _queued_before(ops)
    launched = np.sort(np.concatenate([np.full(len(queued), _LONG_AGO), ops.launch_start[linked]]))
    known = np.concatenate([queued, linked])
    by_end = known[np.argsort(ops.end[known], kind="stable")]
    ends = ops.end[by_end]
    dur = ops.launch_end - ops.launch_start
    usual = int(np.quantile(dur[linked], UNHINDERED_QUANTILE)) if len(linked) else 0
    # A call that returns after its own work is done waited for that, as a copy from pageable memory does.
    slow = linked[(dur[linked] > usual + JITTER_NS) & (ops.end[linked] > ops.launch_end[linked])]
    asked = ops.launch_start[slow]
    outstanding = np.searchsorted(launched, asked) - np.searchsorted(ends, asked, side="right")
    deepest = int((np.arange(len(launched)) - np.searchsorted(ends, launched, side="right")).max(initial=0))
    crowded = outstanding >= FULL_QUEUE_SHARE * max(deepest, FULL_QUEUE_MIN_DEPTH)
    long = dur[slow] > usual + max(usual, WAITED_MIN_NS)
    is_depth = int((crowded & long).sum()) >= max(FULL_QUEUE_MIN_LAUNCHES, long.sum() / 2)
    waited = slow[((outstanding >= FULL_QUEUE_MIN_OPS) & (dur[slow] > FULL_QUEUE_MIN_NS)) | (crowded & is_depth)]
    last = np.searchsorted(ends, ops.launch_end[waited], side="right") - 1
    fits = (last >= 0) & (ends[np.maximum(last, 0)] > ops.launch_start[waited])
    full[waited[fits]] = True
    freed[waited[fits]] = by_end[last[fits]]
    return full, freed


def _queued_before(ops: DeviceOps) -> Ints:
    """Return the ops that were in the queue when the recording of launches began: without them it seems empty."""
    linked = np.flatnonzero(ops.linked)
    first_start = ops.start[linked].min(initial=_NEVER) if len(linked) else _LONG_AGO
    return np.flatnonzero(~ops.linked & (ops.start < first_start))
