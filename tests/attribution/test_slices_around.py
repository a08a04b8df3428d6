"""What lies around slices: equal to climbing from parent to parent, and found in few rounds where nesting is deep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.attribution.columns import NO_ROW, Ints
from traceanalyzer.attribution.records.host_slices import HostSlices, RowsById


def slices(parent: Ints, end: Ints) -> HostSlices:
    """Return slices of one thread, of which only parents and ends are known."""
    rows = np.arange(len(parent))
    none = np.full(len(parent), NO_ROW)
    return HostSlices(
        slice_id=rows,
        thread=np.zeros_like(rows),
        start=rows,
        end=end,
        depth=np.zeros_like(rows),
        parent=parent,
        op_id=none,
        annotation_id=none,
        python_id=none,
        correlation=none,
        name_code=np.zeros_like(rows),
        names=("a",),
        categories=("annotation",),
        by_id=RowsById(rows),
    )


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool], list[int]]:
    count = draw(st.integers(1, 12))
    numbers = st.integers(0, 6)
    return (
        [draw(st.integers(NO_ROW, row - 1)) for row in range(count)],
        [draw(numbers) for _ in range(count)],
        [draw(st.booleans()) for _ in range(count)],
        [draw(numbers) for _ in range(count)],
    )


@pytest.mark.sampled
@given(nested())
def test_what_is_around_equals_a_climb_from_parent_to_parent(
    case: tuple[list[int], list[int], list[bool], list[int]],
) -> None:
    parent, end, wanted, after = case

    def climb(row: int, least_ns: int) -> int:
        row = parent[row]
        while row != NO_ROW and not (wanted[row] and end[row] > least_ns):
            row = parent[row]
        return row

    found = slices(np.asarray(parent), np.asarray(end))
    rows = np.arange(len(parent))
    assert found.nearest_above(np.asarray(wanted)).tolist() == [climb(row, -1) for row in range(len(parent))]
    around = found.around(np.asarray(wanted))
    assert around.open_after(rows, np.asarray(after)).tolist() == [
        climb(row, least_ns) for row, least_ns in enumerate(after)
    ]


@pytest.mark.parametrize("has_state", [True, False])
def test_a_hundred_thousand_ranges_in_each_other_that_end_at_once(has_state: bool) -> None:
    # As a program writes that opens a range in each step and closes none. Row by row this takes minutes.
    count = 100_000
    wanted = np.full(count, has_state)
    wanted[0] = True
    around = slices(np.arange(count) - 1, np.full(count, count)).around(wanted)
    rows = np.arange(count)
    assert (around.open_after(rows, np.full(count, count)) == NO_ROW).all()
    assert (around.open_after(rows, rows) == (rows - 1 if has_state else np.minimum(rows - 1, 0))).all()
