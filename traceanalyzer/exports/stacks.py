"""The stacks of a thread, from its slices: balanced, in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traceanalyzer.exports.part import TracePart
from traceanalyzer.run import Run

# A slice belongs to the innermost one around it that ends no more than this before it does: clocks are read in turn.
SLACK_NS = 1_000
_LAUNCHING = """
    SELECT DISTINCT thread_id, coalesce(thread_name, 'thread ' || tid, 'thread')
    FROM threads
    WHERE trace_id = $trace_id AND thread_id IN (
        SELECT thread_id FROM host_slices JOIN gpu_ops ON gpu_ops.launch_id = slice_id
        AND gpu_ops.trace_id = host_slices.trace_id WHERE host_slices.trace_id = $trace_id
    )
    ORDER BY thread_id
"""
_SLICES = """
    SELECT slice_id, coalesce(name, ''), start_ns, dur_ns FROM host_slices
    WHERE trace_id = $trace_id AND thread_id = $thread_id AND start_ns < $end_ns AND start_ns + dur_ns > $start_ns
    ORDER BY start_ns, dur_ns DESC, depth, slice_id
"""
_STREAMS = "SELECT DISTINCT device, coalesce(stream, 0) FROM gpu_ops WHERE trace_id = $trace_id ORDER BY ALL"
_OPS = """
    SELECT op_id, coalesce(name, ''), start_ns, dur_ns FROM gpu_ops
    WHERE trace_id = $trace_id AND device = $device AND coalesce(stream, 0) = $stream
    AND start_ns < $end_ns AND start_ns + dur_ns > $start_ns
    ORDER BY start_ns, dur_ns DESC, op_id
"""


@dataclass(frozen=True)
class Turn:
    """A frame begins or ends."""

    begins: bool
    at_ns: int  # since the trace's start
    slice_id: int
    name: str


def launching_threads(run: Run, part: TracePart) -> list[tuple[int, str]]:
    """Return the number and the name of each thread that launches GPU work; of all threads where none does."""
    values = {"trace_id": part.trace_id}
    threads = run.connection.execute(_LAUNCHING, values).fetchall()
    if threads:
        return threads
    every = (
        "SELECT thread_id, coalesce(thread_name, 'thread ' || tid, 'thread') FROM threads WHERE trace_id = $trace_id"
    )
    return run.connection.execute(f"{every} ORDER BY thread_id", values).fetchall()


def streams(run: Run, part: TracePart) -> list[tuple[int, int]]:
    """Return the device and the number of each stream."""
    return run.connection.execute(_STREAMS, {"trace_id": part.trace_id}).fetchall()


def thread_turns(run: Run, part: TracePart, thread_id: int) -> Iterator[Turn]:
    """Return the turns of a thread's stack, in order of time; every frame that begins ends."""
    return _turns(run, part, _SLICES, {"thread_id": thread_id})


def stream_turns(run: Run, part: TracePart, device: int, stream: int) -> Iterator[Turn]:
    """Return the same for the work on a stream."""
    return _turns(run, part, _OPS, {"device": device, "stream": stream})


def _turns(run: Run, part: TracePart, query: str, values: dict[str, Any]) -> Iterator[Turn]:
    start_ns, end_ns = part.window_ns or (-(2**62), 2**62)
    bounds = {"trace_id": part.trace_id, "start_ns": start_ns, "end_ns": end_ns}
    first_ns = part.first_ns
    open_frames: list[tuple[int, str, int]] = []  # slice, name, end
    with run.connection.cursor() as own:
        result = own.execute(query, {**bounds, **values})
        while rows := result.fetchmany(10_000):
            for slice_id, name, at_ns, dur_ns in rows:
                ends_ns = at_ns + dur_ns
                while open_frames and open_frames[-1][2] <= at_ns:
                    closed, closed_name, closed_ns = open_frames.pop()
                    yield Turn(False, closed_ns - first_ns, closed, closed_name)
                while open_frames and open_frames[-1][2] < ends_ns - SLACK_NS:
                    closed, closed_name, _ = open_frames.pop()
                    yield Turn(False, at_ns - first_ns, closed, closed_name)
                if open_frames:
                    ends_ns = min(ends_ns, open_frames[-1][2])
                yield Turn(True, at_ns - first_ns, slice_id, name)
                open_frames.append((slice_id, name, ends_ns))
    for closed, closed_name, closed_ns in reversed(open_frames):
        yield Turn(False, closed_ns - first_ns, closed, closed_name)
