"""What lies around slices: equal to climbing from parent to parent, and found in few rounds where nesting is deep."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.attribution.columns import NO_ROW, Ints
from traceanalyzer.attribution.host import host_timeline
from traceanalyzer.attribution.host.host_timeline import Nesting
from traceanalyzer.attribution.host.queues import HELD_MIN_NS, Pieces
from traceanalyzer.attribution.records.host_slices import HostSlices, RowsById, nearest_above


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
    assert nearest_above(found.parent, np.asarray(wanted)).tolist() == [climb(row, -1) for row in range(len(parent))]
    around = found.around(np.asarray(wanted))
    assert around.open_after(rows, np.asarray(after)).tolist() == [
        climb(row, least_ns) for row, least_ns in enumerate(after)
    ]


Piece = tuple[int, int, int, int]  # owner, state, slice, units of time


@st.composite
def scattered(draw: st.DrawFn) -> tuple[list[int], list[int], list[Piece]]:
    count = draw(st.integers(1, 10))
    parent = [draw(st.integers(NO_ROW, row - 1)) for row in range(count)]
    states = st.integers(1, 2)
    pieces = st.tuples(st.integers(0, 1), states, st.integers(NO_ROW, count - 1), st.integers(1, 4))
    return parent, [draw(states) for _ in range(count)], draw(st.lists(pieces, min_size=1, max_size=8))


@pytest.mark.sampled
@pytest.mark.parametrize("deep", [0, 1_000])
@given(case=scattered())
def test_the_slice_to_blame_is_the_innermost_of_its_state_that_holds_most(
    deep: int, case: tuple[list[int], list[int], list[Piece]]
) -> None:
    parent, state, pieces = case
    depth = [0] * len(parent)
    for row, above in enumerate(parent):
        depth[row] = 0 if above == NO_ROW else depth[above] + 1
    nesting = Nesting(np.asarray(parent), np.asarray(depth), np.asarray(state, np.int8))
    owner, code, row_of, units = (np.asarray(column) for column in zip(*pieces, strict=True))
    with mock.patch.object(host_timeline, "_DEEP", deep):
        found = Pieces(owner, code, row_of, units * HELD_MIN_NS).blames(2, nesting)
    for number in {piece[:2] for piece in pieces}:
        own = [piece for piece in pieces if piece[:2] == number]
        amount = sum(piece[3] for piece in own) * HELD_MIN_NS
        longest = max(own, key=lambda piece: piece[3])[3]
        held: dict[int, int] = {}
        for *_, row, count in own:
            at = row
            while at != NO_ROW:
                if state[at] == state[row]:
                    held[at] = held.get(at, 0) + count * HELD_MIN_NS
                at = parent[at]
        named = sum(piece[3] for piece in own if piece[2] != NO_ROW) * HELD_MIN_NS
        if longest * HELD_MIN_NS < amount // 2 <= named:
            enough = min(max(held.values()), amount // 2)
            assert found[number] == max(row for row, held_ns in held.items() if held_ns >= enough)
        else:
            assert found[number] in {piece[2] for piece in own if piece[3] == longest}


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


@pytest.mark.check
def test_waits_in_twenty_thousand_ranges_in_each_other_are_blamed_on_the_innermost_with_most() -> None:
    count, owners = 20_000, 4_000
    rows = np.arange(count)
    nesting = Nesting(rows - 1, rows, np.ones(count, np.int8))
    # Of each owner's five equal pieces, three lie at or below the third.
    pieces = Pieces(rows // 5, np.ones(count, np.int8), rows, np.full(count, HELD_MIN_NS))
    assert (pieces.blames(owners, nesting)[:, 1] == np.arange(owners) * 5 + 2).all()
