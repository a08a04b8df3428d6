"""setup_calls: calls that create contexts or load code, and the kernels that waited for it."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

QUERY = "SELECT slice_id, kind, name, call_id, call, op_id FROM setup_calls"


def test_the_call_that_runs_when_a_context_is_created_creates_it() -> None:
    #  0 ├ cudaMalloc ───────┤ 100   ├ cudaMalloc ┤
    #                 ^ created
    slices = """
    slice_id  category  name              start_ns  dur_ns  depth  parent_id
    1         runtime   cudaMalloc_v3020  0         100     0      -
    2         driver    cuMemAlloc        10        90      1      1
    3         runtime   cudaMalloc_v3020  200       10      0      -
    """
    contexts = """
    context  device  created_ns
    1        0       90
    2        1       -
    """
    assert ask(connect(host_slices=slices, contexts=contexts), QUERY) == [
        (1, "context", "cudaMalloc", 1, "cudaMalloc", None)
    ]


def test_code_that_a_launch_loads_holds_up_its_kernel() -> None:
    slices = """
    slice_id  category  name                              start_ns  dur_ns  depth  parent_id
    1         runtime   cudaLaunchKernel_v7000            0         100     0      -
    2         overhead  Runtime Triggered Module Loading  5         80      1      1
    3         overhead  Lazy Function Loading             90        5       1      1
    4         overhead  CUPTI Buffer flush                96        2       1      1
    """
    ops = """
    op_id  kind    name         start_ns  dur_ns  launch_id
    9      kernel  add(float*)  120       10      1
    """
    found = ask(connect(host_slices=slices, gpu_ops=ops), QUERY)
    assert found == [
        (2, "code", "Runtime Triggered Module Loading", 1, "cudaLaunchKernel", 9),
        (3, "code", "Lazy Function Loading", 1, "cudaLaunchKernel", 9),
    ]


def test_a_load_within_a_load_counts_once() -> None:
    slices = """
    slice_id  category  name              start_ns  dur_ns  depth  parent_id
    1         driver    cuModuleLoadData  0         100     0      -
    2         driver    cuLinkComplete    5         80      1      1
    3         driver    cuModuleUnload    200       80      0      -
    """
    assert ask(connect(host_slices=slices), QUERY) == [(1, "code", "cuModuleLoadData", 1, "cuModuleLoadData", None)]


def test_where_no_context_has_a_time_the_first_slow_call_ahead_of_all_gpu_work_creates_it() -> None:
    #  0 ├ cudaMalloc, 120 ms ──┤ ├ cudaMalloc, 40 ms ┤  170 kernel  ├ cudaMalloc, 60 ms ┤
    slices = """
    slice_id  category  name                start_ns   dur_ns     depth  parent_id
    1         runtime   cudaGetDeviceCount  0          50000000   0      -
    2         runtime   cudaMalloc_v3020    0          120000000  0      -
    3         runtime   cudaMalloc_v3020    121000000  40000000   0      -
    4         runtime   cudaMalloc_v3020    171000000  60000000   0      -
    """
    ops = "op_id  kind    name  start_ns   dur_ns\n9      kernel  add   170000000  10"
    found = [(2, "context", "cudaMalloc", 2, "cudaMalloc", None)]
    nsys = [{"recorder": "nsys"}]
    assert ask(connect(host_slices=slices, gpu_ops=ops, traces=nsys), QUERY) == found
    untimed = "context  device  created_ns\n1        0       -"
    assert ask(connect(host_slices=slices, gpu_ops=ops, traces=nsys, contexts=untimed), QUERY) == found
    # Elsewhere the profiler itself has created the context before.
    assert ask(connect(host_slices=slices, gpu_ops=ops, traces=[{"recorder": "kineto"}]), QUERY) == []


@pytest.mark.parametrize("call", ["cudaMemcpyToSymbol_v3020", "cudaEventCreate_v3020", "cudaFuncGetAttributes_v3020"])
def test_any_call_of_the_runtime_may_be_the_first_that_needs_a_context(call: str) -> None:
    slices = f"""
    slice_id  category  name                    start_ns   dur_ns     depth  parent_id
    1         runtime   cudaProfilerStart_v4000  0          900000000  0      -
    2         runtime   {call}                   900000000  89000000   0      -
    """
    ops = "op_id  kind    name  start_ns    dur_ns\n9      kernel  add   1000000000  10"
    found = ask(connect(host_slices=slices, gpu_ops=ops, traces=[{"recorder": "nsys"}]), QUERY)
    assert [(row[0], row[1]) for row in found] == [(2, "context")]
