"""graph_replays: which part of a device's kernels graphs launched."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

WINDOWS = """
device  start_ns  end_ns  window_ns
0       0         1000    1000
"""
CALLS = [
    {"slice_id": 1, "category": "runtime", "name": "cudaGraphLaunch_v10000"},
    {"slice_id": 2, "category": "runtime", "name": "cudaLaunchKernel"},
]


def test_kernels_of_one_graph_launch_count_as_replayed_and_as_one_call() -> None:
    ops = """
    op_id  kind    is_comm  start_ns  dur_ns  launch_id
    1      kernel  false    0         30      1
    2      kernel  false    40        30      1
    3      kernel  false    80        20      2
    4      kernel  true     100       500     2
    5      kernel  false    2000      500     2
    """
    rows = ask(
        connect(windows=WINDOWS, gpu_ops=ops, host_slices=CALLS),
        "SELECT kernel_count, kernel_ns, replay_count, replayed_count, replayed_share, eager_count FROM graph_replays",
    )
    assert rows == [(3, 80, 1, 2, pytest.approx(0.75), 1)]


def test_a_whole_graph_and_a_recorded_graph_id_count_without_their_launch() -> None:
    ops = """
    op_id  kind    is_comm  start_ns  dur_ns  graph_id
    1      graph   false    0         30      -
    2      kernel  false    40        30      7
    3      kernel  false    80        40      -
    """
    rows = ask(
        connect(windows=WINDOWS, gpu_ops=ops), "SELECT replay_count, replayed_count, eager_count FROM graph_replays"
    )
    assert rows == [(0, 2, 1)]
