"""layers: modules of one class at one place are one row, and their times add up."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

#  Net_0   [0 - 100)
#    Block_0 [0 - 30)          Block_1 [40 - 80)
#      Linear_7 [10 - 20)        Linear_8 [50 - 70)
SLICES = """
slice_id  thread_id  start_ns  dur_ns  category  name                 op_id  module_id
1         0          0         100     python    nn.Module: Net_0     -      -
2         0          0         30      python    nn.Module: Block_0   -      1
3         0          10        10      python    nn.Module: Linear_7  -      2
4         0          12        2       runtime   cudaLaunchKernel     -      3
5         0          40        40      python    nn.Module: Block_1   -      1
6         0          50        20      python    nn.Module: Linear_8  -      5
7         0          52        2       runtime   cudaLaunchKernel     -      6
8         0          72        2       runtime   cudaLaunchKernel     -      5
"""
OPS = """
op_id  kind    start_ns  dur_ns  launch_id
10     kernel  20        6       4
11     kernel  60        7       7
12     kernel  80        3       8
"""


@pytest.mark.check
def test_modules_of_one_class_at_one_place_are_one_layer() -> None:
    columns = "path, parent_path, depth, module_count, call_count, host_sum_ns, host_self_ns, forward_ns, op_count"
    con = connect("FROM layers", host_slices=SLICES, gpu_ops=OPS)
    assert ask(con, f"SELECT {columns} FROM layers ORDER BY depth") == [
        ("Net", None, 0, 1, 1, 100, 30, 16, 3),
        ("Net/Block", "Net", 1, 2, 2, 70, 40, 16, 3),
        ("Net/Block/Linear", "Net/Block", 2, 2, 2, 30, 30, 13, 2),
    ]


@pytest.mark.check
def test_layers_add_up_to_the_modules() -> None:
    con = connect("FROM layers JOIN modules USING (trace_id)", host_slices=SLICES, gpu_ops=OPS)
    sums = "sum(host_self_ns)::BIGINT, sum(forward_ns)::BIGINT, sum(op_count)::BIGINT, sum(call_count)::BIGINT"
    assert ask(con, f"SELECT {sums} FROM layers") == ask(con, f"SELECT {sums} FROM modules")
