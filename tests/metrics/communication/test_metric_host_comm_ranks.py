"""host_comm_ranks: how long each rank waits in MPI or gloo, and for which rank."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_tables import ask, connect

WINDOW_NS = 1_000
QUESTION = """
    SELECT rank, call_count, wait_ns, own_ns, compute_ns, host_ns, slowest_rank, least_wait_ns, uneven_ns
    FROM host_comm_ranks
"""


def asked(waits: list[int], calls: int | list[int] = 10, name: str = "MPI_Allreduce") -> list[tuple[Any, ...]]:
    """Return what the metric says of ranks that wait so long, and compute and launch for half of the rest each."""
    numbers = calls if isinstance(calls, list) else [calls] * len(waits)
    tables: dict[str, list[dict[str, Any]]] = {"traces": [], "windows": [], "ledger_rows": [], "host_slices": []}
    for rank, (wait_ns, count) in enumerate(zip(waits, numbers, strict=True)):
        where = {"trace_id": rank, "device": 0}
        own_ns = WINDOW_NS - wait_ns
        parts = {"compute": own_ns // 2, "host.launch_api": own_ns - own_ns // 2, "host.comm_cpu": wait_ns}
        tables["traces"].append({"trace_id": rank, "trace": f"rank{rank}", "rank": rank})
        tables["windows"].append({**where, "start_ns": 0, "end_ns": WINDOW_NS, "window_ns": WINDOW_NS})
        tables["ledger_rows"] += [
            {**where, "row_id": number, "kept": True, "bucket": bucket, "dur_ns": dur_ns}
            for number, (bucket, dur_ns) in enumerate(parts.items())
            if dur_ns
        ]
        tables["host_slices"] += [
            {"trace_id": rank, "slice_id": number, "name": name, "category": "other", "start_ns": number, "dur_ns": 1}
            for number in range(count)
        ]
    return ask(connect("host_comm_ranks", **tables), QUESTION)


def test_the_rank_that_waits_least_is_the_one_that_others_wait_for() -> None:
    assert asked([380, 360, 20]) == [
        (0, 10, 380, 620, 310, 310, 2, 20, 340),  # 980 - 640, and the mean is 747
        (1, 10, 360, 640, 320, 320, 2, 20, 340),
        (2, 10, 20, 980, 490, 490, 2, 20, 340),
    ]


def test_where_several_are_slow_the_run_loses_what_they_are_above_the_mean() -> None:
    assert {(row[6], row[8]) for row in asked([400, 400, 100, 100])} == {(2, 150)}


def test_a_rank_alone_has_no_row() -> None:
    assert asked([400]) == []


def test_ranks_that_do_not_do_the_same_have_no_row() -> None:
    assert asked([400, 0], [10, 12]) != []
    assert asked([400, 0], [10, 13]) == []
    assert asked([400, 0], 9) == []


def test_asking_whether_something_arrived_is_no_call_that_ranks_share() -> None:
    assert asked([400, 0], name="MPI_Test") == asked([400, 0], name="MPI_Iprobe") == []
    assert asked([400, 0], name="gloo:all_reduce") != []


@pytest.mark.check
@settings(max_examples=15)
@given(st.lists(st.integers(0, 900), min_size=2, max_size=5))
def test_what_the_run_loses_is_no_more_than_the_slowest_rank_has_above_the_fastest(waits: list[int]) -> None:
    own = sorted((WINDOW_NS - wait for wait in waits), reverse=True)
    mean_above = own[0] - sum(own) / len(own)
    rows = asked(waits)
    assert len(rows) == len(waits)
    for row in rows:
        assert row[7] == min(waits) == waits[row[6]]
        assert abs(row[8] - max(own[0] - own[1], mean_above)) <= 0.5
        assert 0 <= row[8] <= max(waits) - min(waits)
