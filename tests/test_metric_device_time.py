"""device_time and comm_share: lengths of unions, and what hides behind compute."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from text_tables import ask, connect

TIMES = """
    SELECT span_ns, busy_ns, idle_ns, compute_ns, comm_ns, exposed_comm_ns, memcpy_ns, exposed_memcpy_ns
    FROM device_time
"""

#  compute  [0 ---- 10)        [30 - 40)
#  nccl          [5 ------ 20)
#  copy                 [15 ----- 32)
OPS = """
op_id  kind    stream  start_ns  dur_ns  is_comm
1      kernel  7       0         10      false
2      kernel  8       5         15      true
3      memcpy  9       15        17      false
4      kernel  7       30        10      false
"""


def test_times_are_lengths_of_unions() -> None:
    assert ask(connect(gpu_ops=OPS), TIMES) == [(40, 40, 0, 20, 15, 10, 17, 10)]


def test_communication_that_overlaps_compute_is_hidden() -> None:
    query = "SELECT comm_kernel_count, comm_share, exposed_comm_share, overlap_share FROM comm_share"
    assert ask(connect(gpu_ops=OPS), query) == [(1, 15 / 40, 10 / 40, 5 / 15)]


def test_without_communication_the_overlap_is_unknown() -> None:
    con = connect(gpu_ops="op_id  kind    start_ns  dur_ns\n1      kernel  0         10")
    assert ask(con, "SELECT comm_ns, overlap_share FROM comm_share") == [(0, None)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "graph", "memcpy", "memset", "comm"]), st.integers(0, 30), st.integers(0, 9)
        ),
        min_size=1,
        max_size=10,
    )
)
@settings(max_examples=25, deadline=None)
def test_times_agree_with_asking_every_nanosecond(ops: list[tuple[str, int, int]]) -> None:
    con = connect(
        gpu_ops=[
            {
                "op_id": 99 - i,
                "kind": "kernel" if kind == "comm" else kind,
                "stream": i,
                "start_ns": start,
                "dur_ns": dur,
                "is_comm": kind == "comm",
            }
            for i, (kind, start, dur) in enumerate(ops)
        ]
    )
    first, last = min(start for _, start, _ in ops), max(start + dur for _, start, dur in ops)
    running = [{kind for kind, start, dur in ops if start <= at < start + dur} for at in range(first, last)]
    compute = [bool(kinds & {"kernel", "graph"}) for kinds in running]
    comm = ["comm" in kinds for kinds in running]
    copies = ["memcpy" in kinds for kinds in running]
    kernels = [a or b for a, b in zip(compute, comm, strict=True)]
    busy = sum(map(bool, running))
    assert ask(con, TIMES) == [
        (
            last - first,
            busy,
            last - first - busy,
            sum(compute),
            sum(comm),
            sum(a and not b for a, b in zip(comm, compute, strict=True)),
            sum(copies),
            sum(a and not b for a, b in zip(copies, kernels, strict=True)),
        )
    ]
