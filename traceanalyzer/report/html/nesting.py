"""Rows for slices of a thread: a slice lies below the one around it, as viewers draw it."""

from __future__ import annotations

from collections.abc import Sequence

# Clocks of annotations and frames differ by a little: a slice that ends this much after another still lies inside it.
TOLERANCE_NS = 1_000


def rows_of(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return the row of each (start, end), given by start and longest first, so that none overlaps in its row.

    A slice lies below the innermost one around it; one that outlives the slice that it begins in, as the profiler's
    steps do, lies below what holds it whole, in the next row that is free there.
    """
    rows: list[int] = []
    stack: list[tuple[int, int]] = []  # end and row of the slices that are open
    free_from: list[int] = []  # by row
    for start, end in spans:
        while stack and stack[-1][0] <= start:
            stack.pop()
        around = [item for item in stack if item[0] >= end - TOLERANCE_NS]
        row = around[-1][1] + 1 if around else 0
        while row < len(free_from) and free_from[row] > start + TOLERANCE_NS:
            row += 1
        free_from += [0] * (row + 1 - len(free_from))
        free_from[row] = max(free_from[row], end)
        rows.append(row)
        stack.append((end, row))
    return rows
