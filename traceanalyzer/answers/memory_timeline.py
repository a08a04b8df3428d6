"""Memory by category out of timelines that PyTorch's profiler exports (`export_memory_timeline("….raw.json.gz")`).

The first bytes of a file tell which of PyTorch's files about memory it is.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed.streams import BROKEN, CountedReader, UnpackBudget, UnpackLimits, opened

_HEAD_BYTES = 2**12


def memory_file_kind(path: Path) -> Literal["snapshot", "timeline"] | None:
    """Return whether a file is a snapshot or an exported timeline; None for anything else."""
    if not path.is_file():
        return None
    try:
        with closing(opened(path)) as content:
            head = content.read(_HEAD_BYTES)
    except BROKEN:
        return None
    start = b"".join(head.split())
    if head.startswith(b"\x80") or start.startswith((b'{"segments":', b'{"device_traces":', b'{"allocator_settings":')):
        return "snapshot"
    return "timeline" if _FIRST_ROW.match(start) else None


# What is older than the recording comes first, at time -1; where there is nothing, what the program allocates first.
_FIRST_ROW = re.compile(rb"\[\[(-1,1,|\d{1,19},[1-4],-?\d{1,19},\d\][],])")


Rows = NDArray[np.int64]

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
# Text of rows packs to a tenth.
_MOST_RATIO = 100
_SMALL_BYTES = 16 * 2**20
_CHUNK_BYTES = 2**18
_LONGEST_ROW = 2**12
_BATCH_ROWS = 2**16
_LARGEST = 2**62
_BEGINNING = re.compile(rb"\s*\[\s*(\]?)")
_NUMBER = rb"\s*(-?\d{1,19})\s*"
_ROW = re.compile(rb"\s*\[" + (_NUMBER + b",") * 3 + rb"\s*(\d)\s*\]\s*([,\]])")
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


def read_exported_timeline(path: Path) -> Rows:
    """Return the rows of an exported timeline: time in ns, action, bytes, category.

    Takes a row at a time: the text as Python's lists would need 20 times its size. Raises TraceAnalyzerError where the
    file is none, or unpacks to more than a timeline of its size does.
    """
    numbers = array("q")
    try:
        budget = UnpackBudget(UnpackLimits(MAX_BYTES, _MOST_RATIO, _SMALL_BYTES), path)
        with closing(budget.counting(opened(path))) as content:
            for row in _rows(content):
                numbers.extend(row)
    except (*BROKEN, ValueError) as error:
        raise TraceAnalyzerError("is no exported memory timeline: its rows are not four numbers", path) from error
    return np.frombuffer(numbers, dtype=np.int64).reshape(-1, 4) if numbers else np.empty((0, 4), np.int64)


def _rows(content: CountedReader) -> Iterator[tuple[int, int, int, int]]:
    """Yield the rows of a text `[[-1, 1, 512, 0], …]`; raises ValueError for any other."""
    waiting = content.read(_CHUNK_BYTES)
    begin = _BEGINNING.match(waiting)
    if begin is None:
        raise ValueError
    at, is_open = begin.end(), not begin[1]
    while True:
        while is_open and (row := _ROW.match(waiting, at)):
            time_ns, action, size, category = map(int, row.groups()[:4])
            if max(abs(time_ns), abs(action), abs(size)) > _LARGEST or category >= len(CATEGORIES):
                raise ValueError
            yield time_ns, action, size, category
            at, is_open = row.end(), row[5] == b","
        rest = waiting[at:] if is_open else waiting[at:].lstrip()
        block = content.read(_CHUNK_BYTES)
        if len(rest) > _LONGEST_ROW or (rest and not block) or (is_open and not block):
            raise ValueError
        if not block:
            return
        waiting, at = rest + block, 0


def timeline_totals(rows: Rows) -> TimelineTotals:
    """Return the totals of a timeline; all rows of one time happen together, so no maximum lies between them."""
    levels = [0] * len(CATEGORIES)
    peaks = [0] * len(CATEGORIES)
    older = peak = time_count = 0
    peak_ns: int | None = None
    at_peak: tuple[int, ...] = tuple(levels)
    for time_ns, group in groupby(_by_time(rows), key=lambda row: row[0]):
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


def _by_time(rows: Rows) -> Iterator[list[int]]:
    """Yield rows in the order of their times; sums of them may pass 64 bits, so they are Python's numbers."""
    order = np.argsort(rows[:, 0], kind="stable")
    for begin in range(0, len(order), _BATCH_ROWS):
        yield from rows[order[begin : begin + _BATCH_ROWS]].tolist()
