"""algorithm_searches: convolutions that time several algorithms before they run one."""

from __future__ import annotations

from text_tables import ask, connect

#  0 ├ convolution ──────────────┤ 100   ├ convolution ┤    ├ mm ────────────┤
#       ├ launch ┤ ├ wait ┤                  ├ launch ┤         ├ wait ┤
CALLS = """
slice_id  category  name                     start_ns  dur_ns  thread_id
1         cpu_op    aten::cudnn_convolution  0         100     1
2         runtime   cudaLaunchKernel         10        5       1
3         runtime   cudaEventSynchronize     20        60      1
4         cpu_op    aten::cudnn_convolution  200       50      1
5         runtime   cudaLaunchKernel         210       5       1
6         cpu_op    aten::mm                 300       100     1
7         runtime   cudaEventSynchronize     320       60      1
8         cpu_op    aten::cudnn_convolution  600       50      1
9         runtime   cudaEventSynchronize     610       10      2
"""


def test_only_a_convolution_that_waits_for_an_event_on_its_thread_searches() -> None:
    query = "SELECT slice_id, name, start_ns, dur_ns FROM algorithm_searches"
    assert ask(connect(host_slices=CALLS), query) == [(1, "aten::cudnn_convolution", 0, 100)]
