"""Nesting found in vectors agrees with a plain stack."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, NONE, Nested, Nester, Slices

Row = tuple[int, int, int, int]  # thread, start, dur, category


def slices(rows: list[Row]) -> Slices:
    ordered = sorted(enumerate(rows), key=lambda r: (r[1][0], r[1][1], -r[1][2], r[0]))
    columns = np.array([(i, *row) for i, row in ordered], np.int64).reshape(-1, 5).T
    return Slices(*columns)


def by_stack(rows: Slices) -> list[tuple[int, ...]]:
    """Nest with a stack: (depth, parent, nearest of each category)."""
    answers: list[tuple[int, ...]] = []
    stack: list[int] = []
    for i in range(len(rows)):
        if i and rows.thread_id[i] != rows.thread_id[i - 1]:
            stack = []
        while stack and not _open(rows, stack[-1], int(rows.start_ns[i])):
            stack.pop()
        nearest = [
            next((int(rows.slice_id[j]) for j in reversed(stack) if rows.category[j] == code), NONE)
            for code in range(len(ANCESTOR_CATEGORIES))
        ]
        answers.append((len(stack), int(rows.slice_id[stack[-1]]) if stack else NONE, *nearest))
        stack.append(i)
    return answers


def _open(rows: Slices, index: int, at: int) -> bool:
    end = int(rows.start_ns[index] + rows.dur_ns[index])
    return end > at or (rows.dur_ns[index] == 0 and rows.start_ns[index] == at)


def as_tuples(nested: Nested) -> list[tuple[int, ...]]:
    return list(
        zip(nested.depth.tolist(), nested.parent_id.tolist(), *(n.tolist() for n in nested.nearest), strict=True)
    )


def test_a_slice_ending_where_another_starts_does_not_enclose_it() -> None:
    # 0 [----)
    # 1      [----)
    nested = Nester().feed(slices([(0, 0, 5, NONE), (0, 5, 5, NONE)]))
    assert nested.parent_id.tolist() == [NONE, NONE]


def test_zero_length_slices_of_one_instant_stack() -> None:
    nested = Nester().feed(slices([(0, 0, 5, 0), (0, 2, 0, 1), (0, 2, 0, NONE)]))
    assert as_tuples(nested) == [(0, NONE, NONE, NONE, NONE), (1, 0, 0, NONE, NONE), (2, 1, 0, 1, NONE)]


def test_a_slice_that_outlasts_its_parent_keeps_it_and_is_counted() -> None:
    # 0 [-----)
    # 1    [------)
    # 2        [-)
    nester = Nester()
    nested = nester.feed(slices([(0, 0, 6, NONE), (0, 3, 7, NONE), (0, 7, 2, NONE)]))
    assert nested.parent_id.tolist() == [NONE, 0, 1]
    assert nester.crossing_count == 1


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.integers(-1, 2)), min_size=1, max_size=60
)


@given(ROWS)
@examples(1000)
def test_vectors_agree_with_a_stack(rows: list[Row]) -> None:
    ordered = slices(rows)
    assert as_tuples(Nester().feed(ordered)) == by_stack(ordered)


@given(ROWS, st.integers(1, 7))
@examples(500)
def test_batch_size_does_not_change_parents(rows: list[Row], size: int) -> None:
    ordered = slices(rows)
    nester = Nester()
    answers: list[tuple[int, ...]] = []
    for first in range(0, len(ordered), size):
        part = Slices(*(getattr(ordered, f)[first : first + size] for f in Slices.__dataclass_fields__))
        answers += as_tuples(nester.feed(part))
    assert answers == by_stack(ordered)
