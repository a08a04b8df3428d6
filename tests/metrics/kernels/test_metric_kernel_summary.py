"""kernel_summary: plain statistics over the launches of each kernel."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

OPS = """
op_id  kind    stream  start_ns  dur_ns  name  occupancy_percent
1      kernel  7       0         10      gemm  100
2      kernel  8       0         30      gemm  20
3      kernel  7       50        20      add   -
4      memcpy  7       80        99      copy  -
"""


def test_statistics_are_over_launches_and_not_over_sums() -> None:
    query = """
        SELECT name, kernel_count, sum_ns, mean_ns, median_ns, min_ns, max_ns, stddev_ns, sum_share
        FROM kernel_summary
    """
    assert ask(connect(gpu_ops=OPS), query) == [
        ("gemm", 2, 40, 20.0, 20.0, 10, 30, pytest.approx(200**0.5), pytest.approx(2 / 3)),
        ("add", 1, 20, 20.0, 20.0, 20, 20, None, pytest.approx(1 / 3)),
    ]


def test_occupancy_is_weighted_by_time_and_unknown_where_not_recorded() -> None:
    query = "SELECT name, occupancy_percent FROM kernel_summary"
    assert ask(connect(gpu_ops=OPS), query) == [("gemm", (100 * 10 + 20 * 30) / 40), ("add", None)]
