"""Stacks of threads and the work on streams, for https://www.speedscope.app."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports.part import TracePart
from traceanalyzer.exports.stacks import Turn, launching_threads, stream_turns, streams, thread_turns
from traceanalyzer.report.visible import visible
from traceanalyzer.run import Run
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
        named += [(f"device {d} stream {s}", stream_turns(run, part, d, s)) for d, s in streams(run, part)]
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
