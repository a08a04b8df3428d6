"""copies: bytes, time and bandwidth by direction and memory kind."""

from __future__ import annotations

from text_tables import ask, connect

OPS = """
op_id  kind    stream  start_ns  dur_ns  size_bytes  copy_kind  src_kind  dst_kind
1      memcpy  7       0         10      1000        HtoD       pinned    device
2      memcpy  8       5         30      9000        HtoD       pinned    device
3      memcpy  7       50        40      400         HtoD       pageable  device
4      memcpy  7       100       0       8           DtoH       device    pageable
5      memset  7       110       5       64          -          -         device
6      kernel  7       120       5       -           -          -         -
"""


def test_bandwidth_is_all_bytes_over_all_time_so_long_copies_weigh_more() -> None:
    query = """
        SELECT copy_kind, src_kind, dst_kind, copy_count, size_bytes, sum_ns, busy_ns, max_ns, bandwidth_bytes_per_s
        FROM copies
    """
    # The mean of the pinned copies' own bandwidths, 100 and 300 bytes a ns, would be 200; over time it is 250.
    assert ask(connect(gpu_ops=OPS), query) == [
        ("HtoD", "pageable", "device", 1, 400, 40, 40, 40, 1e10),
        ("HtoD", "pinned", "device", 2, 10000, 40, 35, 30, 2.5e11),
        ("DtoH", "device", "pageable", 1, 8, 0, 0, 0, None),
    ]


def test_bandwidth_leaves_out_copies_of_unknown_size() -> None:
    ops = """
    op_id  kind    start_ns  dur_ns  size_bytes  copy_kind
    1      memcpy  0         10      1000        HtoD
    2      memcpy  20        90      -           HtoD
    """
    for metric in ("copies", "copies_by_step"):
        query = f"SELECT size_bytes, sum_ns, bandwidth_bytes_per_s FROM {metric}"
        assert ask(connect(gpu_ops=ops), query) == [(1000, 100, 1e11)]


def test_copies_of_unknown_direction_and_size_have_a_row() -> None:
    con = connect(gpu_ops="op_id  kind    start_ns  dur_ns\n1      memcpy  0         10")
    query = "SELECT copy_kind, src_kind, copy_count, size_bytes, busy_ns, bandwidth_bytes_per_s FROM copies"
    assert ask(con, query) == [(None, None, 1, None, 10, None)]
