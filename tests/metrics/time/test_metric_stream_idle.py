"""stream_idle: causes by hand, and gaps against counted nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples


def test_a_gap_is_the_hosts_only_where_the_launch_came_after_it_began() -> None:
    # stream 7  |--10--|   |--20--|      |--30--|                 |-40-|
    # launches                         ^ 250        ^ 100: in time
    con = connect(
        "FROM stream_idle",
        host_slices="""
        slice_id  category  name              start_ns  dur_ns
        1         runtime   cudaLaunchKernel  10        5
        2         runtime   cudaLaunchKernel  250       5
        """,
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns  launch_id
        1      kernel  7       0         100     -
        2      kernel  7       120       100     1
        3      kernel  7       270       100     2
        4      kernel  7       60000     10      1
        5      kernel  7       60020     10      -
        """,
    )
    columns = "gap_count, idle_ns, host_wait_ns, kernel_wait_ns, other_wait_ns"
    assert ask(con, f"SELECT {columns} FROM stream_idle") == [(4, 59_710, 50, 20, 59_640)]


@pytest.mark.check
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=12))
@examples()
def test_gaps_agree_with_counted_nanoseconds(spans: list[tuple[int, int]]) -> None:
    con = connect(
        "FROM stream_idle",
        gpu_ops=[
            {"op_id": n, "kind": "kernel", "stream": 7, "start_ns": start, "dur_ns": dur}
            for n, (start, dur) in enumerate(spans)
        ],
    )
    busy = {at for start, dur in spans for at in range(start, start + dur)}
    first, last = min(start for start, _ in spans), max(start for start, _ in spans)
    idle = sum(at not in busy for at in range(first, last))
    assert sum(row[0] for row in ask(con, "SELECT idle_ns FROM stream_idle")) == idle


def test_hta_takes_the_gap_after_a_short_operation_inside_a_long_one() -> None:
    # stream 7  |------100------|  |-10-|
    #             |-10-|
    con = connect(
        "SELECT * FROM stream_idle_hta, stream_idle",
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns
        1      kernel  7       0         100
        2      kernel  7       20        10
        3      kernel  7       120       10
        """,
    )
    assert ask(con, "SELECT gap_count, idle_ns FROM stream_idle") == [(1, 20)]
    assert ask(con, "SELECT gap_count, negative_count, idle_ns FROM stream_idle_hta") == [(2, 1, 90 - 80)]
