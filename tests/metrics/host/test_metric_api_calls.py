"""api_calls and launching_slices: the few slices of the host that questions about launches and waits are about."""

from __future__ import annotations

import duckdb
import pytest
from text_tables import ask, connect

# What launches the second kernel is no call: XLA's traces name an operation of the host.
SLICES = """
slice_id  category  name              start_ns  dur_ns  depth  parent_id  op_id
1         cpu_op    aten::add         0         100     0      -          -
2         runtime   cudaLaunchKernel  10        20      1      1          1
3         driver    cuLaunchKernel    12        10      2      2          1
4         python    train.py(3): run  0         500     0      -          -
5         other     TfrtGpuExecute    200       50      0      -          -
6         runtime   cudaFree          300       50      0      -          -
"""
OPS = """
op_id  kind    name  start_ns  dur_ns  launch_id
8      kernel  add   120       10      2
9      kernel  mul   220       10      5
10     kernel  pow   230       10      5
11     kernel  sub   240       10      -
"""


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return connect(host_slices=SLICES, gpu_ops=OPS)


def test_calls_of_the_runtime_and_of_the_driver_are_listed(con: duckdb.DuckDBPyConnection) -> None:
    columns = "slice_id, name, start_ns, dur_ns, depth, parent_id, op_id"
    assert ask(con, f"SELECT {columns} FROM api_calls ORDER BY slice_id") == [
        (2, "cudaLaunchKernel", 10, 20, 1, 1, 1),
        (3, "cuLaunchKernel", 12, 10, 2, 2, 1),
        (6, "cudaFree", 300, 50, 0, None, None),
    ]


def test_what_launched_work_is_listed_once_whatever_it_is(con: duckdb.DuckDBPyConnection) -> None:
    found = ask(con, "SELECT slice_id, name FROM launching_slices ORDER BY slice_id")
    assert found == [(2, "cudaLaunchKernel"), (5, "TfrtGpuExecute")]
