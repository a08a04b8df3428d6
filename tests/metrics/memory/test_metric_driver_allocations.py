"""driver_allocations: how far calls that allocate device memory spread over the window."""

from __future__ import annotations

from text_tables import ask, connect

WINDOWS = """
device  start_ns  end_ns  window_ns
0       1000      2000    1000
"""
QUERY = """
    SELECT call_count, free_count, tenth_count, api, pinned_call_count, pinned_tenth_count FROM driver_allocations
"""


def test_calls_count_once_and_their_tenths_once() -> None:
    calls = """
    slice_id  category  name               start_ns
    1         runtime   cudaMalloc_v3020   1000
    2         runtime   cudaFree_v3020     1099
    3         runtime   cudaMalloc_v3020   1950
    4         runtime   cudaMallocHost     1500
    7         driver    cuMemFreeHost      1510
    8         runtime   hipHostMalloc      1999
    9         runtime   cudaHostGetFlags   1700
    5         cpu_op    cudaMalloc         1500
    6         runtime   cudaMalloc_v3020   2000
    """
    assert ask(connect(windows=WINDOWS, host_slices=calls), QUERY) == [(3, 1, 2, "cudaMalloc_v3020", 3, 2)]


def test_a_window_without_calls_has_a_row() -> None:
    assert ask(connect(windows=WINDOWS), QUERY) == [(0, 0, 0, None, 0, 0)]
