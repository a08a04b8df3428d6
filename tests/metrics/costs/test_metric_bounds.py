"""cause_savings, kernel_class_savings: what one cause or one class of kernels saves, on its rank and on the run."""

from __future__ import annotations

import pyarrow as pa
import pytest

from traceanalyzer.attribution.replay.bounds import Bounds
from tracesim import in_memory, simulate, simulate_job

BEHIND_LOADER = {"steps": 7, "kernels": 100, "kernel_us": 80, "loader_us": 15_000}
ALL_LATE = {"ranks": 3, "steps": 6, "kernels": 60, "comm_us": 500, "faults": {"loader_us": 9_000}}
ONE_LATE = {**ALL_LATE, "faults": {"rank": 2, "loader_us": 9_000}}


def test_faster_kernels_behind_a_slow_loader_are_worth_nothing() -> None:
    con = in_memory.connect_tables(simulate(BEHIND_LOADER).canonical_tables())
    rows = con.sql(
        "SELECT class, dur_sum_ns > 0.4 * window_ns, standalone_share, run_share FROM kernel_class_savings"
    ).fetchall()
    ((_, is_long, standalone, run),) = [row for row in rows if row[1]]
    assert is_long
    assert standalone == run == pytest.approx(0, abs=0.001)


def test_a_class_twice_as_fast_is_worth_what_the_rerun_says() -> None:
    run = simulate({**BEHIND_LOADER, "loader_us": 200})
    con = in_memory.connect_tables(run.canonical_tables())
    rows = con.sql(
        "SELECT class, kernel_count, standalone_share FROM kernel_class_savings ORDER BY 3 DESC LIMIT 1"
    ).fetchall()
    ((name, count, share),) = rows
    assert share == pytest.approx(run.true_saving_share(kernel_scale={name: 0.5}, first_step=1, last_step=6), abs=0.01)
    assert con.sql(f"SELECT count(*) FROM kernel_class WHERE class = '{name}'").fetchall() == [(count,)]


@pytest.mark.check
def test_every_kernel_is_of_one_class() -> None:
    con = in_memory.connect_tables(simulate_job(ALL_LATE).canonical_tables())
    told = con.sql("SELECT rank, class, kernel_count, dur_sum_ns FROM kernel_class_savings ORDER BY ALL").fetchall()
    counted = con.sql(
        "SELECT rank, class, count(*), sum(dur_ns)::BIGINT FROM kernel_class WHERE class <> 'comm' GROUP BY ALL "
        "ORDER BY ALL"
    )
    assert told == counted.fetchall()


@pytest.mark.check
def test_the_run_wins_what_all_ranks_win_together() -> None:
    con = in_memory.connect_tables(simulate_job(ALL_LATE).canonical_tables())
    shares = con.sql("SELECT run_share FROM cause_savings WHERE cause = 'host.dataloader'").fetchall()
    truth = simulate_job(ALL_LATE).true_saving_share(["host.dataloader"])
    assert [share for (share,) in shares] == [pytest.approx(truth, abs=0.01)] * 3


@pytest.mark.check
def test_a_rank_that_only_waits_owns_nothing_of_the_cause_and_wins_with_the_run() -> None:
    con = in_memory.connect_tables(simulate_job(ONE_LATE).canonical_tables())
    rows = con.sql(
        "SELECT rank, owned_ns > 1e6, run_share > 0.2 FROM cause_savings WHERE cause = 'host.dataloader' ORDER BY rank"
    ).fetchall()
    assert rows == [(0, False, True), (1, False, True), (2, True, True)]


@pytest.mark.check
def test_missing_ranks_leave_the_run_unknown() -> None:
    tables = simulate_job({**ONE_LATE, "ranks": 2, "faults": []}).canonical_tables()
    traces = tables["traces"]
    at = traces.schema.get_field_index("world_size")
    tables["traces"] = traces.set_column(at, traces.schema.field(at), pa.array([8, 8], pa.int32()))
    con = in_memory.connect_tables(tables)
    assert Bounds.load(con).run_abstains() == "missing-ranks: 2 of 8 ranks are in the run"
    for metric in ("cause_savings", "kernel_class_savings"):
        assert con.sql(f"SELECT count(*) > 0, count(run_ns), count(standalone_ns) > 0 FROM {metric}").fetchall() == [
            (True, 0, True)
        ]
