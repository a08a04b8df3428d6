"""The run's ledger: one path through all ranks, as long as the slowest one takes, blamed where each wait began."""

from __future__ import annotations

from typing import Any

import pytest
from bound_against_truth import attributed_job
from workloads.workloads import JOBS, WORKLOADS

from tracesim import in_memory, simulate, simulate_job

TOTAL = "SELECT sum(dur_ns)::BIGINT FROM run_ledger"
WINDOW = "SELECT max(window_ns) FROM windows"


OTHERS = [job for job in JOBS if job != "ranks: one late"]


def told(scenario: dict[str, Any]) -> Any:
    return in_memory.connect_tables(
        simulate_job(scenario, 3).canonical_tables(), readers=("run_ledger host_cause_bounds",)
    )


@pytest.mark.parametrize("job", ["ranks: one late", *(pytest.param(job, marks=pytest.mark.check) for job in OTHERS)])
def test_the_runs_ledger_adds_up_to_its_window(job: str) -> None:
    con = attributed_job(job).con
    assert con.sql(TOTAL).fetchall() == con.sql(WINDOW).fetchall()
    assert con.sql("SELECT count(*) FROM run_ledger WHERE bucket = 'dev.straggler_wait'").fetchall() == [(0,)]


@pytest.mark.check
def test_the_late_rank_has_the_time_that_all_others_waited() -> None:
    con = told(JOBS["ranks: one late"])
    ((rank, bucket, share),) = con.sql("""
        SELECT rank, bucket, share FROM run_ledger WHERE bucket LIKE 'host.%' ORDER BY dur_ns DESC LIMIT 1
    """).fetchall()
    ((own,),) = con.sql("""
        SELECT owned_share FROM host_cause_bounds WHERE rank = 3 AND cause = 'host.dataloader'
    """).fetchall()
    assert (rank, bucket) == (3, "host.dataloader")
    assert share == pytest.approx(own, abs=0.01)


@pytest.mark.check
def test_blame_passes_through_groups_to_the_rank_where_it_began() -> None:
    # Ranks 0 and 1, and 2 and 3, are groups; so are 0 and 2, and 1 and 3. Rank 1 never meets rank 2, which is late.
    con = told(JOBS["ranks: groups"])
    rows = con.sql("SELECT rank, share FROM run_ledger WHERE bucket = 'host.dataloader'").fetchall()
    assert max(rows, key=lambda row: row[1])[0] == 2
    ((waited,),) = con.sql("""
        SELECT sum(dur_ns) / max(window_ns) FROM ledger_rows JOIN windows USING (trace_id, device)
        WHERE trace_id = 1 AND kept AND bucket = 'dev.straggler_wait'
    """).fetchall()
    assert max(share for _, share in rows) >= waited - 0.01


@pytest.mark.check
def test_a_slow_stage_holds_the_whole_pipeline() -> None:
    con = told(JOBS["ranks: pipeline with a slow stage"])
    rows = dict(con.sql("SELECT rank, sum(share) FROM run_ledger WHERE bucket = 'compute' GROUP BY rank").fetchall())
    assert max(rows, key=lambda rank: rows[rank]) == 2
    assert con.sql("SELECT sum(share) FROM run_ledger WHERE bucket = 'dev.comm_p2p'").fetchall()[0][0] < 0.05


def test_one_device_has_its_own_window() -> None:
    con = in_memory.connect_tables(simulate(WORKLOADS["loader and item"], 3).canonical_tables())
    own = "SELECT bucket, sum(dur_ns)::BIGINT FROM ledger_rows WHERE kept GROUP BY bucket ORDER BY bucket"
    assert con.sql("SELECT bucket, dur_ns FROM run_ledger ORDER BY bucket").fetchall() == con.sql(own).fetchall()


@pytest.mark.check
def test_missing_ranks_are_said_and_nothing_is_made_up() -> None:
    tables = simulate_job(JOBS["ranks: one late"], 3).canonical_tables()
    less = {name: table.filter(table["trace_id"].to_numpy() < 3) for name, table in tables.items()}
    ((bucket, dur_ns, reason),) = (
        in_memory.connect_tables(less).sql("SELECT bucket, dur_ns, abstains FROM run_ledger").fetchall()
    )
    assert (bucket, dur_ns) == (None, None)
    assert reason.startswith("missing-ranks: 3 of 4")


@pytest.mark.check
def test_the_clocks_of_ranks_change_nothing() -> None:
    job = JOBS["ranks: late at random"]
    moved = {**job, "clock_offset_us": [5e6, 0, 1e3, -7e5]}
    query = "SELECT rank, bucket, dur_ns FROM run_ledger ORDER BY ALL"
    assert told(job).sql(query).fetchall() == told(moved).sql(query).fetchall()
