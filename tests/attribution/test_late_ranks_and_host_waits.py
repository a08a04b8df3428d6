"""The late rank is named, too, where a step ends in a collective and a wait of the host."""

from __future__ import annotations

from typing import Any

import pytest

from tracesim import in_memory, simulate_job

COMPUTE, MEET = {"repeat": 20, "do": [{"kernel": {"us": 900}}]}, {"comm": {"us": 2_000}}
ENDS: dict[str, list[dict[str, Any]]] = {
    "item": [MEET, {"item": 1}],
    "device": [MEET, {"sync": "device"}],
    "device, needed by nothing": [{"comm": {"us": 2_000, "blocking": False}}, {"sync": "device"}],
    "stream": [MEET, {"sync": "stream"}],
    "item after a kernel": [MEET, {"kernel": {"us": 500}}, {"item": 1}],
    "pageable copy": [MEET, {"d2h": {"mb": 1, "pinned": False, "blocking": True}}],
}
LATE: dict[str, dict[str, Any]] = {"kernels": {"kernel_scale": 1.1667}, "loader": {"loader_us": 3_000}}
QUICK = ("item", "device")


def job(ends: list[dict[str, Any]], faults: dict[str, Any]) -> Any:
    # rank 0  [=== 18 ms ===][waits 3 ms][= 2 ms =] host waits
    # rank 1  [====== 21 ms ============][= 2 ms =] host waits
    scenario = {
        "ranks": 2,
        "steps": 5,
        "program": [{"next": {"us": 1}}, COMPUTE, *ends],
        "faults": {"rank": 1, **faults},
    }
    return in_memory.connect_tables(
        simulate_job(scenario, 3).canonical_tables(), readers=("run_ledger ledger_rows windows",)
    )


@pytest.mark.sampled
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize(
    "ends", [name if name in QUICK else pytest.param(name, marks=pytest.mark.check) for name in ENDS]
)
def test_the_late_rank_is_named_where_a_step_ends_in_a_wait_of_the_host(ends: str, late: str) -> None:
    con = job(ENDS[ends], LATE[late])
    waited = dict(
        con.sql("""
        SELECT blame_rank, sum(dur_ns) / 1e6 / max(step_count)
        FROM ledger_rows JOIN windows USING (trace_id, device)
        WHERE kept AND ledger_rows.bucket = 'dev.straggler_wait' GROUP BY blame_rank
    """).fetchall()
    )
    assert waited == {1: pytest.approx(3, abs=0.1)}
    shares = dict(con.sql("SELECT rank, sum(share) FROM run_ledger GROUP BY rank").fetchall())
    assert shares[1] > 0.85
    assert sum(shares.values()) == pytest.approx(1)


def test_a_wait_of_the_host_for_a_transfer_that_no_kernel_needs_stays_a_synchronization() -> None:
    own = {"steps_marked": False}  # else the next step needs what this one reduced
    program = [{"repeat": 6, "do": [COMPUTE, *ENDS["device, needed by nothing"]]}]
    tables = simulate_job({"ranks": 2, "steps": 1, "program": program, **own}, 3).canonical_tables()
    con = in_memory.connect_tables(tables, readers=("ledger_rows",))
    buckets = dict(con.sql("SELECT bucket, sum(dur_ns) FROM ledger_rows GROUP BY bucket").fetchall())
    assert buckets.get("dev.comm_transfer", 0) < 0.1 * buckets["host.sync"]
