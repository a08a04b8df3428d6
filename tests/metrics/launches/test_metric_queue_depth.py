"""queue_depth and queue_depth_changes: how many launches wait to start."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

#  host    L1[--)  L2[--)                     0..10, 10..20
#  GPU               [ A     )   [ B )        15..40, 45..50
#  depth    1   1 2  1  1        0            2 from 10 to 15
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id
100    kernel  7       15        25      1
101    kernel  7       45        5       2
"""
CALLS = """
slice_id  category  name              start_ns  dur_ns
1         runtime   cudaLaunchKernel  0         10
2         runtime   cudaLaunchKernel  10        10
"""
CHANGES = "SELECT stream, start_ns, dur_ns, depth FROM queue_depth_changes"


def test_a_call_waits_from_its_start_to_the_start_of_its_kernel() -> None:
    con = connect(gpu_ops=OPS, host_slices=CALLS)
    assert ask(con, CHANGES) == [(7, 0, 10, 1), (7, 10, 5, 2), (7, 15, 30, 1), (7, 45, None, 0)]


def test_the_summary_weighs_by_time() -> None:
    con = connect(gpu_ops=OPS, host_slices=CALLS)
    summary = "SELECT window_ns, mean_depth, median_depth, max_depth, empty_ns, full_ns FROM queue_depth"
    assert ask(con, summary) == [(45, (10 * 1 + 5 * 2 + 30 * 1) / 45, 1, 2, 0, 0)]


def test_a_graph_launch_is_one_entry_however_many_kernels_it_replays() -> None:
    con = connect(
        host_slices="""
        slice_id  category  name             start_ns  dur_ns
        1         runtime   cudaGraphLaunch  0         10
        """,
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns  launch_id
        100    kernel  7       20        5       1
        101    kernel  7       30        5       1
        102    kernel  8       40        5       1
        """,
    )
    assert ask(con, CHANGES) == [(7, 0, 20, 1), (7, 20, None, 0), (8, 0, 40, 1), (8, 40, None, 0)]


def test_work_that_starts_before_its_call_or_has_none_does_not_wait() -> None:
    con = connect(
        host_slices=CALLS,
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns  launch_id
        100    kernel  7       5         5       2
        101    kernel  7       50        5       -
        """,
    )
    assert ask(con, CHANGES) == []
    assert ask(con, "FROM queue_depth") == []


def test_the_queue_is_full_from_1024_launches_on() -> None:
    calls = [
        {"slice_id": i, "category": "runtime", "name": "cudaLaunchKernel", "start_ns": i, "dur_ns": 1}
        for i in range(1025)
    ]
    ops = [
        {"op_id": 5000 + i, "kind": "kernel", "stream": 7, "start_ns": 2000 + i, "dur_ns": 1, "launch_id": i}
        for i in range(1025)
    ]
    con = connect(host_slices=calls, gpu_ops=ops)
    # 1,024 wait from 1,023 on, 1,025 until the first starts at 2,000, and 1,024 until the second does.
    assert ask(con, "SELECT max_depth, full_ns FROM queue_depth") == [(1025, 2001 - 1023)]


@pytest.mark.check
@given(
    st.lists(
        st.tuples(st.sampled_from([7, 8]), st.integers(0, 15), st.integers(0, 6), st.integers(-3, 12)), max_size=10
    )
)
@examples()
def test_depth_agrees_with_counting_every_nanosecond(launches: list[tuple[int, int, int, int]]) -> None:
    calls = [
        {"slice_id": i, "category": "runtime", "name": "cudaLaunchKernel", "start_ns": start, "dur_ns": dur}
        for i, (_, start, dur, _) in enumerate(launches)
    ]
    ops = [
        {"op_id": 99 - i, "kind": "kernel", "stream": s, "start_ns": start + wait, "dur_ns": 1, "launch_id": i}
        for i, (s, start, _, wait) in enumerate(launches)
    ]
    con = connect("queue_depth", host_slices=calls, gpu_ops=ops)
    expected: defaultdict[int, list[int]] = defaultdict(list)
    for stream in {stream for stream, _, _, wait in launches if wait > 0}:
        own = [(start, start + wait) for s, start, _, wait in launches if s == stream and wait > 0]
        first, last = min(start for start, _ in own), max(end for _, end in own)
        expected[stream] = [sum(start <= at < end for start, end in own) for at in range(first, last)]
    summary = "SELECT stream, window_ns, mean_depth * window_ns, median_depth, max_depth, empty_ns FROM queue_depth"
    assert {row[0]: (row[1], round(row[2]), *row[3:]) for row in ask(con, summary)} == {
        stream: (
            len(depths),
            sum(depths),
            max(depth for depth in depths if 2 * sum(d >= depth for d in depths) >= len(depths)),
            max(depths),
            depths.count(0),
        )
        for stream, depths in expected.items()
    }
