"""A rank's clock that runs fast: everything that its profiler records, on the times that it reads."""

from __future__ import annotations

from dataclasses import replace

from traceanalyzer.simulator.recording import Recording

_PPM = 1_000_000


def on_drifting_clock(recording: Recording, drift_ppm: float) -> Recording:
    """Return a recording as a clock tells it that is right at the start and runs fast from then on."""
    if not drift_ppm:
        return recording

    def told(time_ns: int) -> int:
        return time_ns + round(time_ns * drift_ppm / _PPM)

    return Recording(
        tuple(replace(item, start_ns=told(item.start_ns), end_ns=told(item.end_ns)) for item in recording.slices),
        tuple(replace(op, start_ns=told(op.start_ns), end_ns=told(op.end_ns)) for op in recording.ops),
        tuple(replace(sync, start_ns=told(sync.start_ns), end_ns=told(sync.end_ns)) for sync in recording.syncs),
        tuple(replace(record, at_ns=told(record.at_ns)) for record in recording.memory),
        tuple(map(told, recording.step_starts_ns)),
        told(recording.end_ns),
    )
