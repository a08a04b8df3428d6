"""launches: the call, the wait in the queue, and the work, of every vendor's calls and of graphs."""

from __future__ import annotations

from text_tables import ask, connect

#  cudaLaunchKernel [0 -- 10)            hipGraphLaunch [20 ------ 50)
#  GPU                    [15 - 40)                      [45 - 55) [60 - 70)
CALLS = """
slice_id  category  name              start_ns  dur_ns
1         runtime   cudaLaunchKernel  0         10
2         runtime   hipGraphLaunch    20        30
3         runtime   cudaMalloc        90        30
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  name
100    kernel  7       15        25      1          gemm
101    kernel  7       45        10      2          first
102    kernel  7       60        10      2          second
103    kernel  7       80        5       -          without call
"""


def test_one_row_a_call_however_many_operations_it_launched() -> None:
    query = "SELECT api, name, op_count, api_ns, queue_ns, gpu_start_ns, gpu_ns, total_ns FROM launches"
    assert ask(connect(host_slices=CALLS, gpu_ops=OPS), query) == [
        ("cudaLaunchKernel", "gemm", 1, 10, 5, 15, 25, 40),
        # It started before the call returned: there was no wait to speak of.
        ("hipGraphLaunch", "first", 2, 30, None, 45, 25, 50),
    ]


def test_a_call_that_outlasts_its_work_ends_the_total() -> None:
    con = connect(
        host_slices="slice_id  category  name        start_ns  dur_ns\n1         runtime   cudaMemcpy  0         50",
        gpu_ops="op_id  kind    start_ns  dur_ns  launch_id\n2      memcpy  10        20      1",
    )
    assert ask(con, "SELECT total_ns FROM launches") == [(50,)]


def test_work_of_one_call_on_two_devices_gives_two_rows() -> None:
    ops = [{"op_id": i, "kind": "kernel", "device": i, "start_ns": 20, "dur_ns": 5, "launch_id": 1} for i in (0, 1)]
    assert ask(connect(host_slices=CALLS, gpu_ops=ops), "SELECT device, op_count FROM launches") == [(0, 1), (1, 1)]
