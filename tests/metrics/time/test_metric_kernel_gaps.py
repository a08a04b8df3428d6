"""kernel_gaps: when no operation runs on any stream, and how late the next one was asked for."""

from __future__ import annotations

from text_tables import ask, connect

GAPS = "SELECT start_ns, dur_ns, before_name, after_name, after_op_id, launch_late_ns FROM kernel_gaps"

#  stream 7  [a 0 - 10)            [c 40 - 50)       [e 70 - 80)
#  stream 8      [b 5 - 20)
#  calls                   c: [25 - 30)  e: [2 - 4)
CALLS = """
slice_id  category  name              start_ns  dur_ns
1         runtime   cudaLaunchKernel  25        5
2         runtime   cudaLaunchKernel  2         2
"""
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  name
100    kernel  7       0         10      -          a
101    memcpy  8       5         15      -          b
102    kernel  7       40        10      1          c
103    kernel  7       70        10      2          e
"""


def test_a_gap_lies_between_all_streams_and_tells_how_late_its_launch_was() -> None:
    assert ask(connect(host_slices=CALLS, gpu_ops=OPS), GAPS) == [
        (20, 20, "b", "c", 102, 10),
        # Launched long before: not the host's gap.
        (50, 20, "c", "e", 103, 0),
    ]


def test_an_unknown_launch_is_neither_early_nor_late() -> None:
    ops = OPS.replace("2          e", "-          e")
    assert ask(connect(host_slices=CALLS, gpu_ops=ops), GAPS)[1][-1] is None


def test_operations_of_zero_length_neither_make_nor_end_a_gap() -> None:
    ops = OPS + "104    kernel  9       30        0       -          point\n"
    assert [row[:2] for row in ask(connect(host_slices=CALLS, gpu_ops=ops), GAPS)] == [(20, 20), (50, 20)]


def test_devices_have_their_own_gaps() -> None:
    ops = [
        {"op_id": i, "kind": "kernel", "device": i % 2, "start_ns": 10 * i, "dur_ns": 10, "name": "k"} for i in range(4)
    ]
    assert ask(connect(gpu_ops=ops), "SELECT device, start_ns, dur_ns FROM kernel_gaps") == [(0, 10, 10), (1, 20, 10)]
