"""step_breakdown: every nanosecond of a step goes to the first role that is active in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

ROLES = "kernel_ns, memcpy_ns, memset_ns, comm_ns, runtime_ns, loader_ns, cpu_ns, other_ns"
BREAKDOWN = f"SELECT dur_ns, {ROLES} FROM step_breakdown"

#  host   loader [0, 20)  operator [20, 60)        other [60, 100)
#  calls                     launch [30, 35)
#  GPU                         kernel [33, 50)  copy [45, 55)  memset [54, 58)  nccl [57, 62)
STEP = """
step  name            host_start_ns  host_end_ns
1     ProfilerStep#1  0              100
"""
SLICES = """
slice_id  category    name                                                          start_ns  dur_ns  op_id
1         annotation  enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__  0         20      -
2         cpu_op      aten::add                                                     20        40      -
3         runtime     cudaLaunchKernel                                              30        5       2
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  is_comm  name
100    kernel  7       33        17      3          false    add
101    memcpy  8       45        10      3          false    Memcpy HtoD (Pinned -> Device)
102    memset  8       54        4       3          false    Memset (Device)
103    kernel  9       57        5       3          true     ncclDevKernel_AllReduce
"""


def test_roles_are_active_in_the_order_of_their_priority() -> None:
    con = connect(steps=STEP, host_slices=SLICES, gpu_ops=OPS)
    # kernel 33-50, copy 50-55, memset 55-58, communication 58-62, runtime 30-33, loader 0-20, operator 20-30
    assert ask(con, BREAKDOWN) == [(100, 17, 5, 3, 4, 3, 20, 10, 38)]


def test_host_operators_of_nccl_are_communication_and_optimizer_marks_are_cpu() -> None:
    slices = """
    slice_id  category    name                     start_ns  dur_ns  op_id
    2         cpu_op      c10d::allreduce_         10        10      -
    3         cpu_op      nccl:all_reduce          12        6       2
    4         annotation  Optimizer.step#SGD.step  50        10      -
    5         annotation  my own mark              70        10      -
    """
    con = connect(steps=STEP, host_slices=slices, gpu_ops="op_id  kind    start_ns  dur_ns\n100    kernel  0         1")
    assert ask(con, BREAKDOWN) == [(100, 1, 0, 0, 6, 0, 0, 4 + 10, 79)]


#  host   step 1 [0, 20)   step 2 [20, 30)   step 3 [30, 60)
#  GPU      kernel of step 1 [5, 40): step 2 is over on the host before its time could begin
def test_a_step_of_no_length_has_no_part_of_the_step_that_starts_with_it() -> None:
    con = connect(
        steps="""
        step  name            host_start_ns  host_end_ns
        1     ProfilerStep#1  0              20
        2     ProfilerStep#2  20             30
        3     ProfilerStep#3  30             60
        """,
        host_slices="""
        slice_id  category  name              start_ns  dur_ns
        3         runtime   cudaLaunchKernel  2         2
        4         runtime   cudaLaunchKernel  22        1
        5         runtime   cudaLaunchKernel  32        1
        """,
        gpu_ops="""
        op_id  kind    stream  start_ns  dur_ns  launch_id  name
        100    kernel  7       5         35      3          add
        101    kernel  8       24        2       4          mul
        102    kernel  7       40        10      5          sub
        """,
    )
    assert ask(con, BREAKDOWN + " ORDER BY step") == [
        (40, 35, 0, 0, 0, 2, 0, 0, 3),
        (0, 0, 0, 0, 0, 0, 0, 0, 0),
        (20, 10, 0, 0, 0, 0, 0, 0, 10),
    ]


def test_every_device_has_its_own_breakdown_of_the_same_host() -> None:
    con = connect(
        steps=[
            {"device": device, "step": 1, "name": "ProfilerStep#1", "host_start_ns": 0, "host_end_ns": 100}
            for device in (0, 1)
        ],
        host_slices="slice_id  category  name       start_ns  dur_ns\n2         cpu_op    aten::add  20        40",
        gpu_ops="""
        op_id  kind    device  start_ns  dur_ns
        100    kernel  0       0         50
        101    kernel  1       40        50
        """,
    )
    assert ask(con, "SELECT device, kernel_ns, cpu_ns, other_ns FROM step_breakdown") == [
        (0, 50, 10, 40),
        (1, 50, 20, 30),
    ]


KINDS = ("kernel", "memcpy", "memset", "comm", "runtime", "loader", "cpu")
NAMES = {"runtime": "cudaLaunchKernel", "loader": "enumerate(DataLoader)#_Iter.__next__", "cpu": "aten::add"}
CATEGORIES = {"runtime": "runtime", "loader": "annotation", "cpu": "cpu_op"}


@pytest.mark.check
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 9)), max_size=12))
@examples()
def test_breakdown_agrees_with_asking_every_nanosecond(events: list[tuple[str, int, int]]) -> None:
    slices, ops = [], [{"op_id": 99, "kind": "kernel", "stream": 0, "start_ns": 0, "dur_ns": 0}]
    for i, (kind, start, dur) in enumerate(events):
        if kind in NAMES:
            slices.append(
                {
                    "slice_id": i,
                    "category": CATEGORIES[kind],
                    "name": NAMES[kind],
                    "start_ns": start,
                    "dur_ns": dur,
                    "thread_id": i,
                }
            )
        else:
            written = "kernel" if kind == "comm" else kind
            ops.append(
                {"op_id": i, "kind": written, "stream": i, "start_ns": start, "dur_ns": dur, "is_comm": kind == "comm"}
            )
    steps = [
        {"step": n, "name": f"ProfilerStep#{n}", "host_start_ns": 10 * n, "host_end_ns": 10 * n + 10} for n in (0, 1)
    ]
    con = connect(BREAKDOWN, steps=steps, host_slices=slices, gpu_ops=ops)
    expected = []
    for first in (0, 10):
        owners = [
            next((k for k in KINDS for kind, start, dur in events if kind == k and start <= at < start + dur), "other")
            for at in range(first, first + 10)
        ]
        expected.append((10, *(owners.count(kind) for kind in (*KINDS, "other"))))
    assert ask(con, BREAKDOWN) == expected
