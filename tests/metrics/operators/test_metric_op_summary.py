"""op_summary: host and device time of operators, self and total, by name and input shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect, rows
from tiers import examples

SUMMARY = """
    SELECT name, call_count, host_sum_ns, host_self_sum_ns, api_sum_ns, device_sum_ns, device_self_sum_ns
    FROM op_summary
    ORDER BY name, input_shapes NULLS FIRST
"""

#  aten::linear [0 ---------------------- 100)
#    aten::addmm   [10 ------------- 60)
#      cudaLaunchKernel [20 -- 30)                 → gemm 200 ns
#        cuLaunchKernel  [22-28)
#    cudaMemcpyAsync              [70 - 80)        → copy 40 ns
SLICES = """
slice_id  category  name              start_ns  dur_ns  depth  parent_id  op_id
1         cpu_op    aten::linear      0         100     0      -          -
2         cpu_op    aten::addmm       10        50      1      1          1
3         runtime   cudaLaunchKernel  20        10      2      2          2
4         driver    cuLaunchKernel    22        6       3      3          2
5         runtime   cudaMemcpyAsync   70        10      1      1          1
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  cpu_op_id  name
100    kernel  7       50        200     3          2          gemm
101    memcpy  7       250       40      5          1          Memcpy HtoD (Pinned -> Device)
"""


def test_self_time_leaves_out_operators_and_calls_within() -> None:
    con = connect(host_slices=SLICES, gpu_ops=OPS)
    assert ask(con, SUMMARY) == [
        ("aten::addmm", 1, 50, 40, 10, 200, 200),
        ("aten::linear", 1, 100, 40, 10, 240, 40),
    ]


def test_calls_and_gpu_operations_may_take_longer_than_two_seconds() -> None:
    slices = """
    slice_id  category  name                   start_ns  dur_ns      depth  parent_id  op_id
    1         cpu_op    aten::item             0         9000000000  0      -          -
    2         runtime   cudaStreamSynchronize  10        8000000000  1      1          1
    """
    ops = """
    op_id  kind    stream  start_ns  dur_ns      launch_id  cpu_op_id  name
    100    kernel  7       20        7000000000  2          1          gemm
    """
    assert ask(connect(host_slices=slices, gpu_ops=ops), SUMMARY) == [
        ("aten::item", 1, 9_000_000_000, 1_000_000_000, 8_000_000_000, 7_000_000_000, 7_000_000_000)
    ]


def test_a_call_whose_only_child_has_its_name_is_one_with_it() -> None:
    slices = SLICES.replace("aten::addmm ", "aten::linear")
    con = connect(host_slices=slices, gpu_ops=OPS)
    assert ask(con, SUMMARY) == [("aten::linear", 1, 100, 80, 20, 240, 240)]


def test_calls_that_are_one_have_the_shapes_of_the_outer_call() -> None:
    slices = """
    slice_id  category  name        start_ns  dur_ns  depth  parent_id  op_id  input_shapes
    1         cpu_op    aten::mean  0         41      0      -          -      [[1024],[]]
    2         cpu_op    aten::mean  3         37      1      1          1      [[1024],[],[],[]]
    """
    con = connect(traces=[{"trace": "test", "has_shapes": True}], host_slices=slices)
    query = "SELECT input_shapes, call_count, host_sum_ns, host_self_sum_ns FROM op_summary"
    assert ask(con, query) == [("[[1024],[]]", 1, 41, 41)]


def test_recursion_with_other_children_counts_every_call() -> None:
    slices = SLICES.replace("aten::addmm ", "aten::linear")
    con = connect(
        host_slices=slices + "6         cpu_op    aten::t           90        5       1      1          1\n",
        gpu_ops=OPS,
    )
    assert ask(con, SUMMARY) == [("aten::linear", 2, 150, 75, 20, 440, 240), ("aten::t", 1, 5, 5, 0, 0, 0)]


def test_shapes_tell_rows_apart_where_they_were_recorded() -> None:
    slices: list[dict[str, Any]] = rows(
        """
        slice_id  category  name       start_ns  dur_ns  input_shapes
        1         cpu_op    aten::add  0         10      [[2,3],[]]
        2         cpu_op    aten::add  20        10      [[4]]
        3         cpu_op    aten::add  40        10      -
        """
    )
    query = "SELECT input_shapes, call_count FROM op_summary ORDER BY ALL NULLS LAST"
    traces = [{"trace": "test", "has_shapes": True}]
    con = connect(traces=traces, host_slices=slices)
    assert ask(con, query) == [("[[2,3],[]]", 1), ("[[4]]", 1), (None, 1)]
    without = connect(traces=[{"trace": "test"}], host_slices=slices)
    assert ask(without, query) == [(None, 3)]


# A random tree of operators: each is told its parent by number, so that every order of siblings and depth occurs.
@pytest.mark.check
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abc"), st.integers(0, 50)), max_size=9))
@examples()
def test_totals_agree_with_walking_the_tree(tree: list[tuple[int, str, int]]) -> None:
    parents = {i: (parent if parent < i else None) for i, (parent, _, _) in enumerate(tree)}
    con = connect(
        "op_summary",
        host_slices=[
            {"slice_id": i, "category": "cpu_op", "name": f"{name}{i}", "dur_ns": 1000, "op_id": parents[i]}
            for i, (_, name, _) in enumerate(tree)
        ],
        gpu_ops=[
            {"op_id": 100 + i, "kind": "kernel", "start_ns": 0, "dur_ns": dur, "cpu_op_id": i}
            for i, (_, _, dur) in enumerate(tree)
        ],
    )

    def work_below(op: int) -> int:
        return tree[op][2] + sum(work_below(child) for child, parent in parents.items() if parent == op)

    expected = {
        f"{name}{i}": (1000 - 1000 * sum(p == i for p in parents.values()), work_below(i), dur)
        for i, (_, name, dur) in enumerate(tree)
    }
    query = "SELECT name, host_self_sum_ns, device_sum_ns, device_self_sum_ns FROM op_summary"
    assert {row[0]: row[1:] for row in ask(con, query)} == expected
