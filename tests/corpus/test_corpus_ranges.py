"""Ranges of real traces: a second reader of their JSON counts launches inside each, and what ran for them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import run_of, table, trace_path

from traceanalyzer.run import Run

__all__ = ["run_of"]
_LAUNCHED = {"kernel", "gpu_memcpy", "gpu_memset"}
_CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}


@pytest.mark.check
@pytest.mark.parametrize("name", ["mi300_normalization", "v100_training_2022", "mi300_resnet_ddp_checkpoint"])
def test_ranges_of_real_traces(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(run_of(name), "SELECT name, call_count, dur_sum_ns, busy_ns, op_count FROM ranges WHERE path IS NULL")
    found = {row["name"]: (row["call_count"], row["dur_sum_ns"], row["busy_ns"], row["op_count"]) for row in rows}
    assert found == _ranges_of(trace_path(name))


def _ranges_of(path: Path) -> dict[str, tuple[int, int, int, int]]:
    events = [
        event for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if event.get("ph") == "X"
    ]
    work = defaultdict(list)
    for event in events:
        if event.get("cat") in _LAUNCHED:
            work[event["args"]["correlation"]].append(_span(event))
    calls = [(event["tid"], _span(event)[0], event["args"]["correlation"]) for event in events if _is_call(event)]
    waits_for = _waiting_threads(events)
    answer: dict[str, tuple[int, int, int, int]] = {}
    marks = defaultdict(list)
    for event in events:
        if event.get("cat") == "user_annotation":
            name = re.sub(r"^(ProfilerStep)#\d+$", r"\1", event["name"])
            marks[name].append((event["tid"], *_span(event)))
    for name, spans in marks.items():
        inside = {
            span
            for thread, at, correlation in calls
            if any(start <= at < end and marked in (thread, waits_for.get(thread)) for marked, start, end in spans)
            for span in _work_of(work, correlation)
        }
        answer[name] = (
            len(spans),
            sum(end - start for _, start, end in spans),
            _covered([(start, end) for _, start, end in inside]),
            len(inside),
        )
    return answer


def _work_of(work: dict[int, list[tuple[int, int]]], correlation: int) -> list[tuple[tuple[int, int], int, int]]:
    """Return the operations of a launch, each with a key of its own."""
    return [((correlation, place), *span) for place, span in enumerate(work.get(correlation, []))]


def _span(event: dict[str, Any]) -> tuple[int, int]:
    start, length = round(event["ts"] * 1000), round(event.get("dur", 0) * 1000)
    return start, start + length


def _is_call(event: dict[str, Any]) -> bool:
    return event.get("cat") in _CALLS and "correlation" in event.get("args", {})


def _waiting_threads(events: list[dict[str, Any]]) -> dict[int, int]:
    """Return the thread of the forward pass for each thread that runs backward passes of another."""
    forward: dict[int, int] = {}
    backward: dict[int, Counter[int]] = defaultdict(Counter)
    for event in events:
        args = event.get("args", {})
        if "Sequence number" in args:
            if args.get("Fwd thread id"):
                backward[event["tid"]][args["Sequence number"]] += 1
            else:
                forward[args["Sequence number"]] = event["tid"]
    votes = {
        thread: Counter(forward[number] for number in numbers if number in forward)
        for thread, numbers in backward.items()
    }
    return {thread: vote.most_common(1)[0][0] for thread, vote in votes.items() if vote}


def _covered(spans: list[tuple[int, int]]) -> int:
    covered = reached = 0
    for start, end in sorted(spans):
        covered += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return covered
