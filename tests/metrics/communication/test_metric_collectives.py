"""collectives: what each communication kernel moves, and how fast."""

from __future__ import annotations

from typing import Any

import pytest
from text_tables import ask, connect


def moved(**of: object) -> tuple[Any, ...]:
    """Return kind, bytes and bandwidths of a kernel of 1 µs in a group of 4."""
    op = {"op_id": 1, "kind": "kernel", "is_comm": True, "dur_ns": 1000, "name": "ncclDevKernel_Generic"}
    con = connect(
        gpu_ops=[{**op, "group_size": 4, "comm_dtype": "Float", "in_elements": 100, "out_elements": 400, **of}]
    )
    query = "SELECT collective_kind, size_bytes, algorithm_bytes_per_s, bus_bytes_per_s FROM collectives"
    return ask(con, query)[0]


@pytest.mark.check
@pytest.mark.parametrize(
    ("collective", "kind", "size_bytes", "bus_factor"),
    [
        ("allreduce", "allreduce", 400, 2 * 3 / 4),
        ("_allgather_base", "allgather", 1600, 3 / 4),
        ("_reduce_scatter_base", "reducescatter", 400, 3 / 4),
        ("all_to_allv", "alltoall", 400, 3 / 4),
        ("broadcast", "broadcast", 400, 1),
        ("reduce", "reduce", 400, 1),
        ("send", "send", 400, 1),
        ("recv", "recv", 1600, 1),
    ],
)
def test_size_and_bus_bandwidth_are_those_of_nccls_benchmarks(
    collective: str, kind: str, size_bytes: int, bus_factor: float
) -> None:
    assert moved(collective=collective) == (
        kind,
        size_bytes,
        size_bytes * 1e6,
        pytest.approx(bus_factor * size_bytes * 1e6),
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("dtype", "size_bytes"),
    [("BFloat16", 200), ("Half", 200), ("Long", 800), ("Byte", 100), ("Float8_e4m3fn", 100), ("ComplexDouble", 1600)],
)
def test_bytes_follow_the_element_type(dtype: str, size_bytes: int) -> None:
    assert moved(collective="allreduce", comm_dtype=dtype)[1] == size_bytes


def test_the_kernels_name_tells_what_was_not_recorded() -> None:
    name = "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)"
    assert moved(name=name, in_elements=None) == ("reducescatter", None, None, None)


def test_an_unknown_type_or_length_gives_no_bandwidth() -> None:
    assert moved(collective="allreduce", comm_dtype="Quaternion")[1:] == (None, None, None)
    assert moved(collective="allreduce", dur_ns=0)[1:] == (400, None, None)


def test_only_communication_kernels_have_rows_and_each_its_step() -> None:
    con = connect(
        steps=[{"step": 3, "name": "ProfilerStep#3", "start_ns": 0, "end_ns": 50}],
        gpu_ops="""
        op_id  kind    is_comm  start_ns  dur_ns  name
        1      kernel  true     10        5       ncclDevKernel_AllReduce
        2      kernel  false    20        5       gemm
        3      kernel  true     50        5       ncclDevKernel_AllReduce
        """,
    )
    assert ask(con, "SELECT op_id, step FROM collectives") == [(1, 3), (3, None)]
