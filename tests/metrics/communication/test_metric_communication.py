"""Communication metrics: factors by hand, and overlap against counted nanoseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples


@pytest.mark.check
@pytest.mark.parametrize(
    ("collective", "name", "size", "factor"),
    [
        ("allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400, 2 * 3 / 4),
        ("allreduce", "ncclDevKernel_AllReduce_Sum_f32_NVLS", 400, 3 / 5),
        ("_allgather_base", "ncclDevKernel_AllGather_RING_LL", 1600, 3 / 4),
        ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 400, 3 / 4),
        ("all_to_all", "ncclDevKernel_SendRecv", 400, 3 / 4),
        ("gather", "ncclDevKernel_SendRecv", 1600, 3 / 4),
        ("scatter", "ncclDevKernel_SendRecv", 6400, 3 / 4),
        ("broadcast", "ncclDevKernel_Broadcast_RING_LL", 400, 1),
        ("reduce", "ncclDevKernel_Reduce_RING_LL", 400, 1),
        ("send", "ncclDevKernel_SendRecv", 400, 1),
        ("recv", "ncclDevKernel_SendRecv", 1600, 1),
    ],
)
def test_factors_are_those_of_the_benchmarks(collective: str, name: str, size: int, factor: float) -> None:
    con = connect(
        "FROM collectives",
        gpu_ops=[
            {"op_id": 1, "kind": "kernel", "is_comm": True, "name": name, "start_ns": 0, "dur_ns": 100, "stream": 7}
            | {"collective": collective, "group_size": 4, "comm_dtype": "Float", "in_elements": 100}
            | {"out_elements": 400}
        ],
    )
    query = "SELECT size_bytes, bus_bytes_per_s FROM collectives"
    assert ask(con, query) == [(size, pytest.approx(factor * size * 1e9 / 100))]


def test_of_one_rank_no_bandwidth_is_known() -> None:
    con = connect(
        "FROM collectives",
        gpu_ops="""
        op_id  kind    is_comm  name  start_ns  dur_ns  collective  group_size  comm_dtype  in_elements
        1      kernel  true     nccl  0         10      allreduce   1           Float       9
        """,
    )
    assert ask(con, "SELECT size_bytes, bus_bytes_per_s FROM collectives") == [(36, None)]


@pytest.mark.check
@given(st.integers(1, 2**62))
@examples()
def test_size_classes_are_powers_of_two(size: int) -> None:
    con = connect(
        "FROM message_sizes",
        gpu_ops=[
            {"op_id": 1, "kind": "kernel", "is_comm": True, "name": "ncclSend", "start_ns": 0, "dur_ns": 1}
            | {"collective": "send", "group_size": 2, "comm_dtype": "Byte", "in_elements": size}
        ],
    )
    assert ask(con, "SELECT log2_bytes FROM message_sizes") == [(size.bit_length() - 1,)]


@pytest.mark.check
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 15)), min_size=1, max_size=12))
@examples()
def test_hidden_time_agrees_with_counted_nanoseconds(kernels: list[tuple[bool, int, int]]) -> None:
    con = connect(
        "FROM comm_overlap",
        gpu_ops=[
            {"op_id": n, "kind": "kernel", "is_comm": is_comm, "name": "k", "start_ns": start, "dur_ns": dur}
            for n, (is_comm, start, dur) in enumerate(kernels)
        ],
    )
    computing = {at for is_comm, start, dur in kernels if not is_comm for at in range(start, start + dur)}
    found = ask(con, "SELECT op_id, hidden_ns, exposed_ns FROM comm_overlap ORDER BY op_id")
    assert found == [
        (n, hidden := len(computing & set(range(start, start + dur))), dur - hidden)
        for n, (is_comm, start, dur) in enumerate(kernels)
        if is_comm
    ]
