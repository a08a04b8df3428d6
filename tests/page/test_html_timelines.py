"""Timelines and stacks of a page: slices lie where they nest, and equal stacks are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.report.html.excerpts import (
    MOST_NS,
    MOST_ROWS,
    Box,
    ExcerptPlace,
    ExcerptWindow,
    Lane,
    outermost_rows,
    thinned,
    window_around,
)
from traceanalyzer.report.html.sections.stacks import (
    TOLERANCE_NS,
    Frames,
    Numbers,
    grouped,
    pruned,
    rows_of,
    telling_rows,
    unfolded,
)

MS = 1_000_000
# Clocks differ by less than this.
FAR_NS = 10 * TOLERANCE_NS

spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10)), max_size=30).map(
    lambda items: sorted(
        ((start * FAR_NS, (start + dur) * FAR_NS) for start, dur in items), key=lambda span: (span[0], -span[1])
    )
)


@examples()
@given(spans)
def test_slices_of_a_row_do_not_overlap_and_lie_below_the_innermost_around_them(items: list[tuple[int, int]]) -> None:
    rows = rows_of(items)
    for at, (start, end) in enumerate(items):
        for other in range(at):
            before = items[other]
            if rows[other] == rows[at]:
                assert before[1] <= start + TOLERANCE_NS
        around = [other for other in range(at) if items[other][1] >= end]
        assert not around or rows[around[-1]] < rows[at]


def test_a_step_that_outlives_the_frame_it_begins_in_hides_nothing() -> None:
    # main holds all; the step's mark begins inside `opens`, which ends soon after, and lasts for a second.
    main, opens, step, inner = (0, 2_000 * MS), (10 * MS, 12 * MS), (11 * MS, 1_011 * MS), (500 * MS, 600 * MS)
    rows = rows_of([main, opens, step, inner])
    assert rows[0] == 0 and rows[1] == 1 and rows[2] == 2 and rows[3] == 3


def test_an_excerpt_shows_a_third_more_around_its_place() -> None:
    window = window_around(ExcerptPlace(0, 0, 1_000 * MS, 1_100 * MS), 0, 10_000 * MS)
    assert (window.start_ns, window.end_ns) == (965 * MS, 1_135 * MS)
    assert window.at(1_000 * MS) == 35 * MS and window.length_ns == 170 * MS
    assert window_around(ExcerptPlace(0, 0, 1_000, 1_100), 900, 20_000).start_ns == 900


@examples()
@given(st.integers(3 * 10**9, 10**12), st.integers(10**9, 10**12))
def test_a_long_place_shows_both_its_ends(length: int, start: int) -> None:
    window = window_around(ExcerptPlace(0, 0, start, start + length), 0, 10**13)
    assert 0.99 * MOST_NS <= window.length_ns <= MOST_NS
    assert 0 < window.at(start) < window.at(start + length) < window.length_ns
    (a, b), (c, d) = window.stretches()
    assert (b - a) + (d - c) == window.length_ns
    assert window.at(b) == window.at(c)


def test_outermost_slices_of_a_thread_that_ends_inside_give_way_to_the_inner_ones() -> None:
    window = ExcerptWindow(0, 1_000, 1_000, 1_000)
    chain = [Box(row, 0, 800, f"frame {row}", "slice-python") for row in range(12)]
    calls = [Box(12, 100, 200, "call", "slice-call"), Box(12, 300, 400, "call", "slice-call")]
    assert outermost_rows([*chain, *calls], window, 12) == 13 - MOST_ROWS
    assert outermost_rows([*chain[:5], Box(5, 0, 10, "call", "slice-call")], window, 5) == 0
    short = [Box(row, 0, 300, f"frame {row}", "slice-python") for row in range(12)]
    assert outermost_rows(short, window, 11) == 0


def test_rows_that_say_nothing_about_the_place_are_left_out_first() -> None:
    place, length = (100, 900), 1_000
    opens = [(row, 0, 5) for row in range(4)]  # nearly empty
    around = [(row, 50, 1_000) for row in range(4, 9)]  # one slice around the place
    calls = [(9, 200, 500), (9, 500, 800), (10, 300, 400)]
    slices = [*opens, *around, *calls]
    assert telling_rows(slices, place, length, 11) == list(range(11))
    assert telling_rows(slices, place, length, 8) == [0, *range(4, 11)]
    assert telling_rows(slices, place, length, 4) == [4, 8, 9, 10]
    assert telling_rows(slices, place, length, 2) == [4, 9]
    assert telling_rows([], place, length, 2) == []


@examples()
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=400), st.integers(1, 60))
def test_short_neighbours_are_one_box_and_none_is_lost(items: list[tuple[int, int]], most: int) -> None:
    boxes, at = [], 0
    for gap, length in items:
        at += gap
        boxes.append(Box(0, at, at + length, f"n{length}", "slice-op"))
        at += length
    (lane,) = thinned([Lane("x", tuple(boxes))], 4, most)
    assert sum(box.count for box in lane.boxes) == len(boxes)
    assert len(lane.boxes) <= max(most, 1)
    assert all(one.end <= two.start for one, two in zip(lane.boxes, lane.boxes[1:], strict=False))


def test_short_slices_that_alternate_give_way_before_long_ones_do() -> None:
    short = [Box(1, 10 * at, 10 * at + 10, f"n{at}", ("slice-op", "slice-call")[at % 2]) for at in range(1_000)]
    long = [Box(0, 0, 5_000, "first", "slice-python"), Box(0, 5_000, 10_000, "second", "slice-python")]
    (lane,) = thinned([Lane("x", (*long, *short))], 6, 100)
    assert [box.name for box in lane.boxes if box.row == 0] == ["first", "second"]
    assert sum(box.count for box in lane.boxes if box.row == 1) == len(short)


def test_a_box_of_several_kinds_has_the_colour_of_the_longest() -> None:
    boxes = [
        Box(0, 10 * at, 10 * at + (8 if at % 2 else 1), "", ("slice-op", "slice-call")[at % 2]) for at in range(90)
    ]
    (lane,) = thinned([Lane("x", tuple(boxes))], 1, 3)
    assert {box.token for box in lane.boxes} == {"slice-call"}


# Stacks as they are recorded: a call is a list of names from the outermost to the innermost, with the time of the last.
calls = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), st.integers(1, 1_000)), min_size=1, max_size=25
)


@examples()
@given(calls)
def test_equal_stacks_are_one_frame_with_the_sum_of_their_times(items: list[tuple[list[str], int]]) -> None:
    parents: list[int] = []
    depths: list[int] = []
    names: list[int] = []
    weights: list[tuple[int, int, int]] = []
    expected: Counter[tuple[str, ...]] = Counter()
    for stack, dur in items:
        for depth, name in enumerate(stack):
            parents.append(len(parents) - 1 if depth else -1)
            depths.append(depth)
            names.append("abc".index(name))
            weights.append((dur, dur if depth == len(stack) - 1 else 0, 0))
            expected[tuple(stack[: depth + 1])] += dur
    frames = grouped(_array(parents), _array(depths), _array(names), _array(weights), tuple("abc"))
    paths = _paths(frames)
    assert {path: int(weight) for path, weight in zip(paths, frames.weights[:, 0], strict=True)} == dict(expected)
    assert (frames.weights[:, 0] == frames.weights[:, 1]).all()
    assert (frames.parents < np.arange(len(frames.parents))).all()


def test_a_chain_of_single_frames_at_the_top_is_folded() -> None:
    parents = np.array([-1, 0, 1, 2, 2], dtype=np.int64)
    weights = np.array([[100, 10, 5]] * 3 + [[60, 10, 0], [40, 0, 5]], dtype=np.int64)
    inner, chain = unfolded(Frames(parents, np.arange(5, dtype=np.int64), weights, tuple("mainx")))
    assert chain == [0, 1, 2]
    assert inner.parents.tolist() == [-1, -1] and inner.names.tolist() == [3, 4]


def test_small_frames_are_left_out_and_parents_stay() -> None:
    parents = np.array([-1, 0, 1, 0], dtype=np.int64)
    weights = np.array([[10_000, 0, 0], [9_000, 0, 0], [8_999, 0, 0], [1, 0, 0]], dtype=np.int64)
    frames = Frames(parents, np.arange(4, dtype=np.int64), weights, tuple("abcd"))
    assert pruned(frames).names.tolist() == [0, 1, 2]
    assert pruned(frames, most=2).names.tolist() == [0, 1]


def _array(numbers: Sequence[object]) -> Numbers:
    return np.array(numbers, dtype=np.int64)


def _paths(frames: Frames) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for parent, name in zip(frames.parents.tolist(), frames.names.tolist(), strict=True):
        paths.append(((*paths[parent],) if parent >= 0 else ()) + (str(frames.name_texts[name]),))
    return paths
