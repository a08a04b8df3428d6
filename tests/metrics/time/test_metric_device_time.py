"""device_activity, engine_time, device_time and comm_share: lengths of unions, and what hides behind compute."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

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


@pytest.mark.check
def test_times_are_lengths_of_unions() -> None:
    assert ask(connect(gpu_ops=OPS), TIMES) == [(40, 40, 0, 20, 15, 10, 17, 10)]


def test_communication_that_overlaps_compute_is_hidden() -> None:
    query = "SELECT comm_kernel_count, comm_share, exposed_comm_share, overlap_share FROM comm_share"
    assert ask(connect(gpu_ops=OPS), query) == [(1, 15 / 40, 10 / 40, 5 / 15)]


def test_without_communication_the_overlap_is_unknown() -> None:
    con = connect(gpu_ops="op_id  kind    start_ns  dur_ns\n1      kernel  0         10")
    assert ask(con, "SELECT comm_ns, overlap_share FROM comm_share") == [(0, None)]


@pytest.mark.check
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "graph", "memcpy", "memset", "comm"]), st.integers(0, 30), st.integers(0, 9)
        ),
        min_size=1,
        max_size=10,
    )
)
@examples()
def test_times_agree_with_asking_every_nanosecond(ops: list[tuple[str, int, int]]) -> None:
    con = connect(
        TIMES,
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
        ],
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


KINDS = {
    "kernel": ["op", "op_no_graph", "kernel", "compute"],
    "comm": ["op", "op_no_graph", "kernel", "comm"],
    "graph": ["op", "graph"],
    "HtoD": ["op", "op_no_graph", "memcpy", "HtoD"],
    "DtoH": ["op", "op_no_graph", "memcpy", "DtoH"],
    "memset": ["op", "op_no_graph", "memset"],
}
HIDEOUTS = {
    "comm": {"compute", "graph"},
    **{kind: {"kernel", "graph"} for kind in ("memcpy", "HtoD", "DtoH", "memset")},
}


@pytest.mark.check
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(sorted(KINDS)), st.integers(0, 30), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    )
)
@examples()
def test_activity_and_what_hides_agree_with_asking_every_nanosecond(ops: list[tuple[int, str, int, int]]) -> None:
    con = connect(
        "device_activity, engine_time",
        gpu_ops=[
            {
                "op_id": i,
                "device": device,
                "kind": {"comm": "kernel", "HtoD": "memcpy", "DtoH": "memcpy"}.get(kind, kind),
                "copy_kind": kind if kind in ("HtoD", "DtoH") else None,
                "stream": i,
                "start_ns": start,
                "dur_ns": dur,
                "is_comm": kind == "comm",
            }
            for i, (device, kind, start, dur) in enumerate(ops)
        ],
    )
    running: dict[tuple[int, str], set[int]] = {}
    counts: dict[tuple[int, str], int] = {}
    for device, kind, start, dur in ops:
        for engine in KINDS[kind]:
            running.setdefault((device, engine), set()).update(range(start, start + dur))
            counts[device, engine] = counts.get((device, engine), 0) + 1
    told = ask(con, "SELECT device, engine, start_ns, dur_ns FROM device_activity WHERE engine NOT LIKE '%_or_graph'")
    for lane, instants in running.items():
        mine = sorted((start, start + dur) for *place, start, dur in told if tuple(place) == lane)
        assert {at for start, end in mine for at in range(start, end)} == instants
        assert all(before[1] < after[0] for before, after in itertools.pairwise(mine))
    query = "SELECT device, engine, op_count, busy_ns, hidden_ns FROM engine_time WHERE engine NOT LIKE '%_or_graph'"
    assert {(device, engine): rest for device, engine, *rest in ask(con, query)} == {
        (device, engine): [
            counts[device, engine],
            len(instants),
            len(instants & set().union(*(running.get((device, other), set()) for other in HIDEOUTS[engine])))
            if engine in HIDEOUTS
            else None,
        ]
        for (device, engine), instants in running.items()
    }
