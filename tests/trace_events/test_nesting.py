"""Nesting agrees with a plain stack, whatever finds it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from both_readers import need_library
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest.native import nest_natively
from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, NONE, Nested, Nester, Slices, in_plain_python, name_hashes
from tracesim.writers.ancestry import stack_below

Row = tuple[int, int, int, int]  # thread, start, dur, category
Nest = Callable[..., int]
PYTHON, MODULE = (ANCESTOR_CATEGORIES.index(name) for name in ("python", "module"))


def name(category: int, start: int) -> str:
    """Name slices so that some stacks are equal and others differ."""
    return f"{category} {start % 3}"


def slices(rows: list[Row]) -> Slices:
    ordered = sorted(enumerate(rows), key=lambda r: (r[1][0], r[1][1], -r[1][2], r[0]))
    columns = list(np.array([(i, *row) for i, row in ordered], np.int64).reshape(-1, 5).T)
    names = pa.array([name(row[3], row[1]) for _, row in ordered], pa.string())
    return Slices(*[*columns, name_hashes(names)])


def by_stack(rows: Slices) -> list[tuple[int, ...]]:
    """Nest with a stack: (depth, parent, nearest of each category, stack_id)."""
    answers: list[tuple[int, ...]] = []
    stack: list[int] = []
    paths: list[int] = []
    for i in range(len(rows)):
        if i and rows.thread_id[i] != rows.thread_id[i - 1]:
            stack = []
        while stack and not _open(rows, stack[-1], int(rows.start_ns[i])):
            stack.pop()
        nearest = [
            next((int(rows.slice_id[j]) for j in reversed(stack) if code in kinds(int(rows.category[j]))), NONE)
            for code in range(len(ANCESTOR_CATEGORIES))
        ]
        end = int(rows.start_ns[i] + rows.dur_ns[i])
        container = next((j for j in reversed(stack) if int(rows.start_ns[j] + rows.dur_ns[j]) >= end), NONE)
        own_name = name(int(rows.category[i]), int(rows.start_ns[i]))
        paths.append(stack_below(0 if container == NONE else paths[container], own_name))
        answers.append((len(stack), int(rows.slice_id[stack[-1]]) if stack else NONE, *nearest, paths[i]))
        stack.append(i)
    return answers


def kinds(category: int) -> tuple[int, ...]:
    return (PYTHON, MODULE) if category == MODULE else (category,)


def _open(rows: Slices, index: int, at: int) -> bool:
    end = int(rows.start_ns[index] + rows.dur_ns[index])
    return end > at or (rows.dur_ns[index] == 0 and rows.start_ns[index] == at)


def as_tuples(nested: Nested) -> list[tuple[int, ...]]:
    columns = (nested.depth, nested.parent_id, *nested.nearest, nested.stack_id)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_slice_ending_where_another_starts_does_not_enclose_it() -> None:
    # 0 [----)
    # 1      [----)
    nested = Nester().feed(slices([(0, 0, 5, NONE), (0, 5, 5, NONE)]))
    assert nested.parent_id.tolist() == [NONE, NONE]


def test_zero_length_slices_of_one_instant_stack() -> None:
    nested = Nester().feed(slices([(0, 0, 5, 0), (0, 2, 0, 1), (0, 2, 0, NONE)]))
    assert [ids[:5] for ids in as_tuples(nested)] == [
        (0, NONE, NONE, NONE, NONE),
        (1, 0, 0, NONE, NONE),
        (2, 1, 0, 1, NONE),
    ]


def test_a_module_is_the_python_frame_of_what_lies_in_it() -> None:
    nested = Nester().feed(slices([(0, 0, 9, MODULE), (0, 1, 5, PYTHON), (0, 2, 1, 0)]))
    python, module = nested.nearest[PYTHON], nested.nearest[MODULE]
    assert (python.tolist(), module.tolist()) == ([NONE, 0, 1], [NONE, 0, 0])


def test_equal_names_in_another_order_are_another_stack() -> None:
    first, second = (stack_below(stack_below(0, one), other) for one, other in (("a", "b"), ("b", "a")))
    assert first != second


def test_a_slice_that_outlasts_its_parent_keeps_it_and_is_counted() -> None:
    # 0 [-----)
    # 1    [------)
    # 2        [-)
    nester = Nester()
    nested = nester.feed(slices([(0, 0, 6, NONE), (0, 3, 7, NONE), (0, 7, 2, NONE)]))
    assert nested.parent_id.tolist() == [NONE, 0, 1]
    assert nester.crossing_count == 1


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.integers(-1, 3)), min_size=1, max_size=60
)


@pytest.fixture(scope="module", params=[nest_natively, in_plain_python], ids=["native", "plain"])
def nest(request: pytest.FixtureRequest) -> Nest:
    """What nests slices: the library, and what does the same."""
    if request.param is nest_natively:
        need_library()
    nest: Nest = request.param
    return nest


def nester_by(nest: Nest) -> Nester:
    nester = Nester()
    nester._nest = nest
    return nester


@given(rows=ROWS)
@examples(1000)
def test_both_agree_with_a_stack(nest: Nest, rows: list[Row]) -> None:
    ordered = slices(rows)
    nester = nester_by(nest)
    assert as_tuples(nester.feed(ordered)) == by_stack(ordered)
    assert nester.crossing_count == crossing_count(ordered)


def crossing_count(rows: Slices) -> int:
    """Count the slices that end after the innermost slice that is open when they start."""
    places = {int(rows.slice_id[i]): i for i in range(len(rows))}
    count = 0
    for i, (_, parent, *_) in enumerate(by_stack(rows)):
        if parent != NONE:
            ends = [2 * int(rows.start_ns[j] + rows.dur_ns[j]) + (rows.dur_ns[j] == 0) for j in (i, places[parent])]
            count += int(ends[0] > ends[1])
    return count


@given(rows=ROWS, size=st.integers(1, 7))
@examples(500)
def test_batch_size_does_not_change_parents(nest: Nest, rows: list[Row], size: int) -> None:
    ordered = slices(rows)
    nester = nester_by(nest)
    answers: list[tuple[int, ...]] = []
    for first in range(0, len(ordered), size):
        part = Slices(*(getattr(ordered, f)[first : first + size] for f in Slices.__struct_fields__))
        answers += as_tuples(nester.feed(part))
    assert answers == by_stack(ordered)
    assert nester.crossing_count == crossing_count(ordered)


@pytest.mark.parametrize(
    ("step_ns", "dur_ns"), [(1, 10**6), (10, 15), (10, 505)], ids=["all open at once", "pairs", "window of 50"]
)
def test_slices_that_cross_take_time_as_their_number(nest: Nest, step_ns: int, dur_ns: int) -> None:
    """In the square of their number, twenty thousand take minutes."""
    rows = slices([(0, i * step_ns, dur_ns, i % 3) for i in range(20_000)])
    nester = nester_by(nest)
    started_s = time.process_time()
    nested = nester.feed(rows)
    assert time.process_time() - started_s < 5
    assert nester.crossing_count == 19_999
    assert nested.depth.tolist() == list(range(20_000))
