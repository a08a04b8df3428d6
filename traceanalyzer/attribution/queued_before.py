"""Waits for work that was queued before the recording began: it ran on the device, and the trace does not hold it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.blocking_calls import BlockingCalls
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.dependencies import Dependencies
from traceanalyzer.attribution.device_ops import DeviceOps
from traceanalyzer.attribution.host_timeline import Timeline


def waits_for_what_came_before(
    ops: DeviceOps,
    needs: Dependencies,
    timelines: Mapping[int, Timeline],
    calls: BlockingCalls,
    rows: Ints,
    wait_ns: Ints,
) -> Flags:
    """Return which of some waits, each by the op that waited, were for work from before the trace.

    Streams are first in, first out: the first op of its stream that the trace holds, launched before any call could see
    that stream run dry, waited for what was in it. A wait shorter than the time recorded before the launch may be
    anything.
    """
    begin = min((int(t.event_start[0]) for t in timelines.values() if len(t.event_start)), default=0)
    first: Flags = ops.linked[rows] & (needs.stream[rows] == NO_ROW) & (needs.other[rows] == NO_ROW)
    first &= ops.launch_start[rows] - begin < wait_ns
    for at in np.flatnonzero(first).tolist():
        asked = calls.end <= ops.launch_start[rows[at]]
        first[at] = not (asked & ((calls.stream == NO_ROW) | (calls.stream == ops.stream[rows[at]]))).any()
    return first
