"""Rows for slices of a thread: a slice lies below the one around it, as viewers draw it."""

from __future__ import annotations

from collections.abc import Sequence

# Clocks of annotations and frames differ by a little: a slice that ends this much after another still lies inside it.
TOLERANCE_NS = 1_000
# A row that covers less of a place says nothing about it; a slice that covers more is only what is around it.
_EMPTY_SHARE = 0.05
_WHOLE_SHARE = 0.98


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


def telling_rows(slices: Sequence[tuple[int, int, int]], place: tuple[int, int], length: int, most: int) -> list[int]:
    """Return at most so many rows, those that say most about a place, of slices given as (row, start, end).

    Where there are too many, rows that are nearly empty are left out, then those that one slice around the place fills,
    but the outermost of these, and then the deepest ones.
    """
    covered: dict[int, int] = {}
    inside: dict[int, int] = {}
    longest: dict[int, int] = {}
    for row, start, end in slices:
        overlap = max(min(end, place[1]) - max(start, place[0]), 0)
        covered[row] = covered.get(row, 0) + end - start
        inside[row] = inside.get(row, 0) + overlap
        longest[row] = max(longest.get(row, 0), overlap)
    room = max(place[1] - place[0], 1)
    empty = [row for row in covered if covered[row] < _EMPTY_SHARE * length and inside[row] < _EMPTY_SHARE * room]
    around = sorted(row for row in covered if longest[row] >= _WHOLE_SHARE * room)[1:]
    rows = set(covered)
    for row in [*sorted(empty, key=lambda row: (covered[row], -row)), *around]:
        if len(rows) <= most:
            break
        rows.discard(row)
    return sorted(rows)[:most]
