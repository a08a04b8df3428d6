"""Launch calls that return only when their kernel is done, as with CUDA_LAUNCH_BLOCKING: a launch, and a wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceanalyzer.attribution.blocking_calls import CLOCK_ERROR_NS
from traceanalyzer.attribution.buckets import CODE, MESSAGE, TRANSFER, Flags, Ints
from traceanalyzer.attribution.device_ops import DeviceOps

# Fewer may all have met a device that was idle.
MIN_LAUNCHES = 200
# In real traces without the mode it is less than one launch in ten, and mostly none.
MIN_BLOCKING_SHARE = 0.9
# From the end of a launch call that does not wait to its kernel on an idle device: 1.6 to 1.8 us in most real traces of
# NVIDIA's devices. Where it is more, the launch seems to cost more and the wait less than they do.
LATENCY_NS = 2_000
_COMM = (CODE[TRANSFER], CODE[MESSAGE])


def split_blocking_launches(ops: DeviceOps) -> DeviceOps:
    """Return ops whose launches end where those that do not wait would, if all of them wait for their kernels."""
    blocked = _blocked(ops)
    if not len(blocked):
        return ops
    launched = ops.launch_start[blocked]
    # An idle device starts a kernel as soon as it is launched.
    cost = ops.start[blocked] - LATENCY_NS - launched
    busy_until = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(ops.end)[:-1]])[blocked]
    idle = busy_until <= launched
    usual = int(np.median(cost[idle] if idle.any() else cost))
    cost = np.where(idle, cost, np.minimum(cost, usual))
    launch_end = ops.launch_end.copy()
    launch_end[blocked] = np.minimum(launched + np.maximum(cost, 1), ops.launch_end[blocked])
    return replace(ops, launch_end=launch_end)


def _blocked(ops: DeviceOps) -> Ints:
    """Return the kernels that launches waited for; none unless nearly all launches of kernels wait."""
    kernels = np.flatnonzero(ops.linked & ~ops.opaque & (ops.compute | np.isin(ops.producer, _COMM)))
    _, launch, count = np.unique(ops.launch_id[kernels], return_inverse=True, return_counts=True)
    alone = kernels[count[launch] == 1]
    waits: Flags = ops.launch_return[alone] >= ops.end[alone] - CLOCK_ERROR_NS
    is_mode = len(alone) >= MIN_LAUNCHES and float(waits.mean()) >= MIN_BLOCKING_SHARE
    found: Ints = alone[waits & is_mode]
    return found
