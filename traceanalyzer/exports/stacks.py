"""Stacks of threads and the work on streams, balanced and in order of time, as files for flame graphs.

https://www.speedscope.app reads profiles; flamegraph.pl and inferno read folded stacks, a line each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports import TracePart, rows_of
from traceanalyzer.run import Run
from traceanalyzer.text.visible import visible
from traceanalyzer.version import __version__

MOST_BYTES = 200_000_000
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(run: Run, parts: Sequence[TracePart], target: IO[bytes]) -> None:
    """Write an evented profile for each thread that launches and each stream; times are ns since the trace's start.

    Raises TraceAnalyzerError where the file passes 200 MB.
    """
    frames: dict[str, int] = {}
    profiles: list[str] = []
    size_bytes = 0
    for part in parts:
        prefix = f"{part.trace.trace}: " if len(parts) > 1 else ""
        named = [(name, thread_turns(run, part, thread_id)) for thread_id, name in launching_threads(run, part)]
        named += [
            (f"device {d} stream {s}", _turns(run, part, _OPS, {"device": d, "stream": s}))
            for d, s in streams(run, part)
        ]
        for name, turns in named:
            profile = _profile(prefix + name, turns, frames)
            if profile is not None:
                profiles.append(profile)
                size_bytes += len(profile)
            if size_bytes > MOST_BYTES:
                hint = "give a part of it: --rank N, --step N, or --window A-B (ms since the start)"
                raise TraceAnalyzerError(
                    f"is longer than the {MOST_BYTES // 10**6} MB that speedscope opens", "export speedscope", hint
                )
    _write(run.name, frames, profiles, target)


def write_speedscope_flame(stacks: Sequence[tuple[str, int]], name: str, unit: str, target: IO[bytes]) -> None:
    """Write folded stacks with their values as one profile; `unit` is nanoseconds or bytes."""
    frames: dict[str, int] = {}
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack.split(";")] for stack, _ in stacks]
    weights = [value for _, value in stacks]
    profile = {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights)}
    text = json.dumps({**profile, "samples": samples, "weights": weights}, separators=(",", ":"))
    _write(name, frames, [text], target)


def _write(name: str, frames: dict[str, int], profiles: Sequence[str], target: IO[bytes]) -> None:
    head = {
        "$schema": _SCHEMA,
        "exporter": f"traceanalyzer@{__version__}",
        "name": visible(name),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": visible(frame)} for frame in frames]},
    }
    target.write(json.dumps(head)[:-1].encode() + b', "profiles": [\n')
    target.write(",\n".join(profiles).encode() + b"\n]}\n")


def _profile(name: str, turns: Iterable[Turn], frames: dict[str, int]) -> str | None:
    events: list[dict[str, Any]] = []
    for turn in turns:
        frame = frames.setdefault(turn.name, len(frames))
        events.append({"type": "O" if turn.begins else "C", "frame": frame, "at": turn.at_ns})
    if not events:
        return None
    profile = {"type": "evented", "name": visible(name), "unit": "nanoseconds"}
    values = {"startValue": events[0]["at"], "endValue": events[-1]["at"], "events": events}
    return json.dumps({**profile, **values}, separators=(",", ":"))


_BETWEEN = re.compile(r"[;\s]+")
_GPU_TIME = """
    SELECT launch_id, sum(dur_ns)::BIGINT FROM gpu_ops
    WHERE trace_id = ? AND launch_id IS NOT NULL GROUP BY launch_id
"""


def write_folded(run: Run, parts: Sequence[TracePart], target: IO[bytes], weight: str = "host") -> None:
    """Write `thread;frame;frame ns` for each stack: the time of the host in it alone, or of the GPU launched there."""
    totals: Counter[tuple[str, ...]] = Counter()
    for part in parts:
        launched = dict(run.connection.execute(_GPU_TIME, [part.trace_id]).fetchall()) if weight == "gpu" else None
        for thread_id, name in launching_threads(run, part):
            root = f"{part.trace.trace}: {name}" if len(parts) > 1 else name
            turns = thread_turns(run, part, thread_id)
            totals.update(_by_stack(root, turns) if launched is None else _launched_by(root, turns, launched))
    for stack, time_ns in sorted(totals.items()):
        if time_ns:
            target.write(f"{';'.join(map(_frame, stack))} {time_ns}\n".encode())


@lru_cache(2**16)
def _frame(name: str) -> str:
    return visible(_BETWEEN.sub(" ", name).strip()) or "?"


def write_folded_flame(stacks: Sequence[tuple[str, int]], target: IO[bytes]) -> None:
    """Write stacks that are folded already, as the metric flame has them, in the order of their names."""
    for stack, value in sorted(stacks):
        target.write(f"{';'.join(map(_frame, stack.split(';')))} {value}\n".encode())


def _by_stack(root: str, turns: Iterable[Turn]) -> Counter[tuple[str, ...]]:
    totals: Counter[tuple[str, ...]] = Counter()
    stack, since_ns = [root], 0
    for turn in turns:
        if len(stack) > 1:
            totals[tuple(stack)] += turn.at_ns - since_ns
        since_ns = turn.at_ns
        if turn.begins:
            stack.append(turn.name)
        else:
            stack.pop()
    return totals


def _launched_by(root: str, turns: Iterable[Turn], launched: dict[int, int]) -> Counter[tuple[str, ...]]:
    totals: Counter[tuple[str, ...]] = Counter()
    stack = [root]
    for turn in turns:
        if turn.begins:
            stack.append(turn.name)
            totals[tuple(stack)] += launched.get(turn.slice_id, 0)
        else:
            stack.pop()
    return totals


# A slice belongs to the innermost one around it that ends no more than this before it does: clocks are read in turn.
SLACK_NS = 1_000
_THREADS = """
    SELECT DISTINCT thread_id, coalesce(thread_name, 'thread ' || tid, 'thread'), thread_id IN (
        SELECT thread_id FROM host_slices JOIN gpu_ops ON gpu_ops.launch_id = slice_id
        AND gpu_ops.trace_id = host_slices.trace_id WHERE host_slices.trace_id = $trace_id
    )
    FROM threads
    WHERE trace_id = $trace_id
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
    threads = run.connection.execute(_THREADS, {"trace_id": part.trace_id}).fetchall()
    launching = [(thread_id, name) for thread_id, name, launches in threads if launches]
    return launching or [(thread_id, name) for thread_id, name, _ in threads]


def streams(run: Run, part: TracePart) -> list[tuple[int, int]]:
    """Return the device and the number of each stream."""
    return run.connection.execute(_STREAMS, {"trace_id": part.trace_id}).fetchall()


def thread_turns(run: Run, part: TracePart, thread_id: int) -> Iterator[Turn]:
    """Return the turns of a thread's stack, in order of time; every frame that begins ends."""
    return _turns(run, part, _SLICES, {"thread_id": thread_id})


def _turns(run: Run, part: TracePart, query: str, values: dict[str, Any]) -> Iterator[Turn]:
    start_ns, end_ns = part.window_ns or (-(2**62), 2**62)
    bounds = {"trace_id": part.trace_id, "start_ns": start_ns, "end_ns": end_ns}
    first_ns = part.first_ns
    open_frames: list[tuple[int, str, int]] = []  # slice, name, end
    for slice_id, name, at_ns, dur_ns in rows_of(run, query, {**bounds, **values}):
        ends_ns = at_ns + dur_ns
        while open_frames and (open_frames[-1][2] <= at_ns or open_frames[-1][2] < ends_ns - SLACK_NS):
            closed, closed_name, closed_ns = open_frames.pop()
            yield Turn(False, min(closed_ns, at_ns) - first_ns, closed, closed_name)
        if open_frames:
            ends_ns = min(ends_ns, open_frames[-1][2])
        yield Turn(True, at_ns - first_ns, slice_id, name)
        open_frames.append((slice_id, name, ends_ns))
    for closed, closed_name, closed_ns in reversed(open_frames):
        yield Turn(False, closed_ns - first_ns, closed, closed_name)
