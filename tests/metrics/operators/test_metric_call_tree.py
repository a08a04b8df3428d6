"""call_tree, flame and modules by hand: self time, stacks that cross, idle time on the stack that caused it."""

from __future__ import annotations

import pytest
from drawn_timeline import tables
from text_tables import ask, connect

from tracesim import in_memory

#        0    10    20    30    40    50
# step   |-----------------------------|
# add         |-----------|
# call          |---|
SLICES = """
id  thread  category    name              start  end
1   1       annotation  step              0      50
2   1       cpu_op      aten::add         10     30
3   1       runtime     cudaLaunchKernel  12     20
4   1       cpu_op      aten::add         32     40
5   1       runtime     cudaLaunchKernel  34     36
"""
OPS = """
id  stream  kind    start  end  launch
10  7       kernel  20     26   3
11  7       kernel  40     45   5
12  7       kernel  60     61   -
"""


def test_equal_stacks_are_one_row_with_self_time_and_device_time() -> None:
    with in_memory.connect_tables(tables(SLICES, OPS)) as con:
        rows = ask(
            con, "SELECT name, call_count, host_sum_ns, host_self_ns, device_self_ns FROM call_tree ORDER BY depth"
        )
    assert rows == [
        ("step", 1, 50_000, 22_000, 0),
        ("aten::add", 2, 28_000, 18_000, 0),
        ("cudaLaunchKernel", 2, 10_000, 10_000, 11_000),
    ]


def test_a_device_flame_adds_up_to_all_operations() -> None:
    with in_memory.connect_tables(tables(SLICES, OPS)) as con:
        rows = ask(con, "SELECT stack, value FROM flame WHERE kind = 'device'")
    assert rows == [("step;aten::add;cudaLaunchKernel;kernel", 11_000), ("(not linked);kernel", 1_000)]


def test_a_device_flame_has_every_operation_also_one_that_took_no_time() -> None:
    with in_memory.connect_tables(tables(SLICES, OPS.replace("60     61", "60     60"))) as con:
        rows = ask(con, "SELECT stack, value FROM flame WHERE kind = 'device'")
    assert rows == [("step;aten::add;cudaLaunchKernel;kernel", 11_000), ("(not linked);kernel", 0)]


def test_an_idle_flame_adds_up_to_the_time_that_the_device_did_not_compute() -> None:
    with in_memory.connect_tables(tables(SLICES, OPS)) as con:
        ((idle,),) = ask(con, "SELECT sum(value) FROM flame WHERE kind = 'idle'")
        ((waited,),) = ask(con, "SELECT sum(dur_ns) FROM attribution.ledger_rows WHERE bucket <> 'compute'")
    assert idle == waited > 0


def test_a_slice_that_outlasts_its_parent_is_not_inside_it() -> None:
    # step   |------------|
    # enter     |----|
    # mark         |-----|
    slices = """
    id  thread  category    name   start  end
    1   1       annotation  step   0      100
    2   1       python      enter  10     50
    3   1       annotation  mark   30     90
    """
    with in_memory.connect_tables(tables(slices, "")) as con:
        rows = ask(con, "SELECT name, host_self_ns FROM call_tree ORDER BY host_sum_ns")
        stacks = ask(con, "SELECT stack FROM flame WHERE kind = 'host' ORDER BY stack")
    assert rows == [("enter", 40_000), ("mark", 60_000), ("step", 20_000)]
    assert stacks == [("step",), ("step;enter",), ("step;mark",)]


@pytest.mark.check
def test_a_module_has_the_time_of_the_modules_inside_and_of_its_backward_pass() -> None:
    con = connect(
        "FROM modules",
        host_slices="""
        slice_id  thread_id  start_ns  dur_ns  category  name                 op_id  module_id  sequence  forward_thread
        1         0          0         100     python    nn.Module: Net_0     -      -          -         -
        2         0          10        50      python    nn.Module: Linear_3  -      1          -         -
        3         0          20        30      cpu_op    aten::mm             -      2          4         -
        4         0          30        10      runtime   cudaLaunchKernel     3      2          -         -
        5         0          70        10      runtime   cudaLaunchKernel     -      1          -         -
        6         1          200       40      cpu_op    MmBackward0          -      -          4         1
        7         1          210       10      runtime   cudaLaunchKernel     6      -          -         -
        """,
        gpu_ops="""
        op_id  kind    start_ns  dur_ns  launch_id
        10     kernel  40        6       4
        11     kernel  80        3       5
        12     kernel  220       9       7
        """,
    )
    assert ask(
        con, "SELECT path, class, host_sum_ns, host_self_ns, forward_ns, backward_ns, op_count FROM modules"
    ) == [
        ("Net_0", "Net", 100, 50, 9, 9, 3),
        ("Net_0/Linear_3", "Linear", 50, 50, 6, 9, 2),
    ]
