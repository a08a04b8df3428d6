"""collective_series: collectives that follow each other, in the order in which the host launches them."""

from __future__ import annotations

from text_tables import ask, connect

CALLS = [{"slice_id": number, "category": "runtime", "start_ns": 10 * number, "dur_ns": 5} for number in range(1, 6)]
OPS = """
op_id  kind    is_comm  stream  start_ns  dur_ns  launch_id  name
1      kernel  true     24      900       10      1          ncclDevKernel_AllReduce_Sum
2      kernel  false    7       100       10      2          gemm
3      memcpy  false    7       300       10      3          copy
4      kernel  true     24      910       10      4          ncclDevKernel_AllReduce_Sum
5      kernel  true     24      920       10      5          ncclDevKernel_AllReduce_Sum
"""


def test_kernels_between_collectives_count_by_launch_and_not_by_when_they_run() -> None:
    query = "SELECT op_id, kernels_before, launch_ns, launch_end_ns FROM collective_series"
    assert ask(connect(gpu_ops=OPS, host_slices=CALLS), query) == [(1, None, 10, 15), (4, 1, 40, 45), (5, 0, 50, 55)]


def test_a_collective_without_its_launch_is_not_listed() -> None:
    ops = "op_id  kind    is_comm  name\n1      kernel  true     ncclDevKernel_AllReduce_Sum"
    assert ask(connect(gpu_ops=ops), "FROM collective_series") == []
