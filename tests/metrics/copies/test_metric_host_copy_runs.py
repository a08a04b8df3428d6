"""host_copy_runs: series of copies to the host that no kernel interrupts."""

from __future__ import annotations

from text_tables import ask, connect

#  kernel  copy copy  kernel  copy  value copy copy(in)
OPS = """
op_id  kind    copy_kind  size_bytes  start_ns  dur_ns
1      kernel  -          -           0         10
2      memcpy  DtoH       4096        20        5
3      memcpy  DtoH       8192        30        5
4      kernel  -          -           40        10
5      memcpy  DtoH       8192        60        5
6      kernel  -          -           70        10
7      memcpy  DtoH       4           90        5
8      memcpy  DtoH       8192        100       5
9      memcpy  HtoD       8192        110       5
10     memcpy  DtoH       4096        120       9
"""


def test_a_series_ends_at_a_kernel_and_leaves_values_and_other_directions_out() -> None:
    query = "SELECT start_ns, end_ns, copy_count, size_bytes FROM host_copy_runs"
    assert ask(connect(gpu_ops=OPS), query) == [(20, 35, 2, 12_288), (100, 129, 2, 12_288)]
