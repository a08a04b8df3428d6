"""graph_captures: how many launches the host recorded into a graph instead of running them."""

from __future__ import annotations

from text_tables import ask, connect

CAPTURES = "SELECT thread_id, start_ns, end_ns, captured_count FROM graph_captures"

#  thread 1  launch 10  [begin 20   launch 30   launch 40 (ran)   end 50)   launch 60   [begin 70 … the trace ends
#  thread 2                         launch 35
CALLS = """
slice_id  category  thread_id  name                    start_ns  dur_ns
1         runtime   1          cudaLaunchKernel        10        2
2         runtime   1          cudaStreamBeginCapture  20        2
3         runtime   1          cudaLaunchKernelExC     30        2
4         runtime   1          cudaLaunchKernel        40        2
5         runtime   1          cudaStreamEndCapture    50        2
6         runtime   1          cudaLaunchKernel        60        2
7         runtime   1          cudaStreamBeginCapture  70        2
8         runtime   2          cudaLaunchKernel        35        2
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  name
100    kernel  7       13        5       1          a
101    kernel  8       43        5       4          beside
102    kernel  7       63        5       6          a
"""


def test_launches_between_begin_and_end_of_a_capture_on_its_thread_are_captured_unless_they_ran() -> None:
    assert ask(connect(host_slices=CALLS, gpu_ops=OPS), CAPTURES) == [(1, 20, 52, 1)]


def test_the_names_of_hip_and_of_the_driver_are_captures_too() -> None:
    calls = CALLS.replace("cudaStream", "hipStream").replace("cudaLaunchKernelExC", "hipExtModuleLaunchKernel")
    assert ask(connect(host_slices=calls, gpu_ops=OPS), CAPTURES) == [(1, 20, 52, 1)]


def test_a_capture_whose_end_is_not_in_the_trace_is_none() -> None:
    calls = "\n".join(line for line in CALLS.splitlines() if "EndCapture" not in line)
    assert ask(connect(host_slices=calls, gpu_ops=OPS), CAPTURES) == []
