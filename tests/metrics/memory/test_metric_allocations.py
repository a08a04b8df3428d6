"""allocations: calls and events that take or give back memory, by step."""

from __future__ import annotations

from text_tables import ask, connect

STEPS = """
device  step  name            host_start_ns  host_end_ns
0       1     ProfilerStep#1  0              50
1       1     ProfilerStep#1  0              50
0       2     ProfilerStep#2  50             100
1       2     ProfilerStep#2  50             100
"""
QUERY = "SELECT device, step, source, name, alloc_count, sum_ns, max_ns, size_bytes FROM allocations"


def test_calls_count_by_the_step_that_they_start_in() -> None:
    con = connect(
        steps=STEPS,
        host_slices="""
        slice_id  category  name              start_ns  dur_ns
        1         runtime   cudaMalloc        10        5
        2         runtime   cudaMalloc        45        15
        3         runtime   hipFree           50        5
        4         runtime   cudaMallocHost    120       5
        5         runtime   cudaMemcpyAsync   20        5
        6         cpu_op    cudaMalloc        20        5
        """,
    )
    assert ask(con, QUERY) == [
        (None, 1, "driver", "cudaMalloc", 2, 20, 15, None),
        (None, 2, "driver", "hipFree", 1, 5, 5, None),
        (None, None, "driver", "cudaMallocHost", 1, 5, 5, None),
    ]


def test_a_driver_call_within_a_runtime_call_counts_once() -> None:
    con = connect(
        host_slices="""
        slice_id  category  name             start_ns  dur_ns  parent_id
        1         runtime   cudaMallocAsync  10        20      -
        2         driver    cuMemAllocAsync  12        10      1
        3         driver    cuMemCreate      40        7       -
        """,
    )
    assert ask(con, QUERY) == [
        (None, None, "driver", "cudaMallocAsync", 1, 20, 20, None),
        (None, None, "driver", "cuMemCreate", 1, 7, 7, None),
    ]


def test_events_of_the_framework_count_with_their_bytes() -> None:
    con = connect(
        steps=STEPS,
        memory_events="""
        event_id  start_ns  kind   device  size_bytes
        1         10        alloc  0       512
        2         20        alloc  0       1024
        3         60        free   0       -512
        4         70        alloc  -1      64
        """,
    )
    assert ask(con, f"{QUERY} ORDER BY step, device, name") == [
        (0, 1, "framework", "alloc", 2, None, None, 1536),
        (-1, 2, "framework", "alloc", 1, None, None, 64),
        (0, 2, "framework", "free", 1, None, None, 512),
    ]


def test_memory_that_nsight_systems_recorded_is_not_the_frameworks() -> None:
    con = connect(
        traces="""
        trace     format
        a.sqlite  nsys
        """,
        host_slices="""
        slice_id  category  name        start_ns  dur_ns
        1         runtime   cudaMalloc  10        5
        """,
        memory_events="""
        event_id  start_ns  kind   device  size_bytes
        2         12        alloc  0       512
        """,
    )
    assert ask(con, f"{QUERY} ORDER BY source") == [
        (None, None, "driver", "cudaMalloc", 1, 5, 5, None),
        (0, None, "usage", "alloc", 1, None, None, 512),
    ]
