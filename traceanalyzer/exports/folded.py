"""Folded stacks, a line each, as flamegraph.pl and inferno read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import IO

from traceanalyzer.exports.part import TracePart
from traceanalyzer.exports.stacks import Turn, launching_threads, thread_turns
from traceanalyzer.report.visible import visible
from traceanalyzer.run import Run

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
