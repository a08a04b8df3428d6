"""Memory by category out of timelines that PyTorch's profiler exports (`export_memory_timeline("….raw.json.gz")`)."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError

CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
)
# Plain text; a program with a million changes of its memory has 40 MB.
MAX_BYTES = 2**30
_LARGEST = 2**62
_BEFORE = -1  # time of what is older than the recording


@dataclass(frozen=True)
class TimelineTotals:
    """Bytes of an exported timeline, by category where a tuple has as many numbers as `CATEGORIES`."""

    event_count: int
    time_count: int  # different times, with that of what is older
    older_bytes: int
    peak_bytes: int
    peak_ns: int | None  # None: nothing is higher than what is older
    at_peak: tuple[int, ...]
    peaks: tuple[int, ...]  # the highest of each category
    at_end: tuple[int, ...]


def read_exported_timeline(path: Path) -> list[tuple[int, int, int, int]]:
    """Return the rows of an exported timeline: time in ns, action, bytes, category.

    Raises TraceAnalyzerError where the file is none.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_packed else path.open("rb") as content:
            text = content.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise TraceAnalyzerError(f"is larger than {MAX_BYTES:,} bytes", path)
        rows = json.loads(text)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise TraceAnalyzerError("is no exported memory timeline", path) from error
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise TraceAnalyzerError("is no exported memory timeline: its rows are not four numbers", path)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def timeline_totals(rows: list[tuple[int, int, int, int]]) -> TimelineTotals:
    """Return the totals of a timeline; all rows of one time happen together, so no maximum lies between them."""
    levels = [0] * len(CATEGORIES)
    peaks = [0] * len(CATEGORIES)
    older = peak = time_count = 0
    peak_ns: int | None = None
    at_peak: tuple[int, ...] = tuple(levels)
    for time_ns, group in groupby(sorted(rows, key=lambda row: row[0]), key=lambda row: row[0]):
        time_count += 1
        for _, _, size, category in group:
            levels[category] += size
        peaks = [max(pair) for pair in zip(peaks, levels, strict=True)]
        if time_ns == _BEFORE:
            older = sum(levels)
        if sum(levels) > peak:
            peak, at_peak = sum(levels), tuple(levels)
            peak_ns = None if time_ns == _BEFORE else time_ns
    return TimelineTotals(len(rows), time_count, older, peak, peak_ns, at_peak, tuple(peaks), tuple(levels))


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 4
        and all(type(n) is int and abs(n) <= _LARGEST for n in row)
        and 0 <= row[3] < len(CATEGORIES)
    )
