"""Collectives of several ranks: which kernels belong together, who waits for whom, and scans that meet in them."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from traceanalyzer import engine
from traceanalyzer.attribution import Bounds, Scenario
from traceanalyzer.attribution.lead_scan import Scan
from traceanalyzer.attribution.run_scan import RunScan
from traceanalyzer.simulator import simulate_job

pc: Any = pyarrow.compute
LATE = {
    "ranks": 4,
    "steps": 6,
    "kernels": 40,
    "comm_us": 400,
    "comm_count": 2,
    "clock_offset_us": [0, 3e6, -5e5, 77_777],
    "faults": {"rank": 3, "loader_us": 9_000},
}
MEMBERS = "SELECT trace_id, op_id, wait_ns, last_rank FROM collective_members ORDER BY trace_id, op_id"


def tables(scenario: dict[str, Any] | None = None) -> dict[str, pa.Table]:
    return simulate_job(LATE if scenario is None else scenario).canonical_tables()


def changed(made: dict[str, pa.Table], **columns: pa.Array[Any]) -> dict[str, pa.Table]:
    ops = made["gpu_ops"]
    for name, values in columns.items():
        at = ops.schema.get_field_index(name)
        ops = ops.set_column(at, ops.schema.field(at), values.cast(ops.schema.field(at).type))
    return made | {"gpu_ops": ops}


def nothing(made: dict[str, pa.Table]) -> pa.Array[Any]:
    return pa.nulls(made["gpu_ops"].num_rows)


def members(made: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    return engine.connect_tables(made).sql(MEMBERS).fetchall()


def test_what_each_rank_waits_is_what_the_simulator_let_it_wait() -> None:
    job = simulate_job(LATE)
    truth = [(rank, op.waited_ns) for rank, run in enumerate(job.ranks) for op in run.recording.ops if op.collective]
    assert [(trace, wait) for trace, _, wait, _ in members(job.canonical_tables())] == truth


def test_the_late_rank_is_named_where_it_costs_time() -> None:
    con = engine.connect_tables(tables())
    rows = con.sql(
        "SELECT trace_id, sum(dur_ns) > 10e6, any_value(blame_rank), count(DISTINCT blame_rank) FROM ledger_rows "
        "WHERE kept AND bucket = 'dev.comm_skew' GROUP BY trace_id ORDER BY trace_id"
    ).fetchall()
    assert rows == [(0, True, 3, 1), (1, True, 3, 1), (2, True, 3, 1)]


def test_without_sequence_numbers_order_tells_the_same() -> None:
    made = tables()
    assert members(changed(made, comm_seq=nothing(made))) == members(made)


def test_a_rank_that_began_to_record_later_is_shifted_to_where_it_fits() -> None:
    made = tables({**LATE, "jitter": 0.1})
    ops = made["gpu_ops"]
    first = pc.and_(pc.equal(ops["trace_id"], 1), ops["is_comm"])
    seen = np.cumsum(np.asarray(first.to_pylist(), dtype=np.int64))
    lost = np.asarray(first.to_pylist()) & (seen <= 3)
    told = {(trace, op): wait for trace, op, wait, _ in members(made)}
    late = made | {"gpu_ops": changed(made, comm_seq=nothing(made))["gpu_ops"].filter(pa.array(~lost))}
    found = {(trace, op): wait for trace, op, wait, _ in members(late)}
    assert sum(wait is None for wait in found.values()) == 3 * 3
    assert all(wait == told[key] for key, wait in found.items() if wait is not None)


def test_ranks_that_did_different_things_are_not_matched() -> None:
    made = tables({**LATE, "ranks": 2, "faults": [], "clock_offset_us": 0})
    ops = made["gpu_ops"]
    other = pc.if_else(pc.equal(ops["trace_id"], 1), pc.add(ops["in_elements"], 1), ops["in_elements"])
    found = changed(made, comm_seq=nothing(made), in_elements=other.combine_chunks())
    assert {wait for _, _, wait, _ in members(found)} == {None}


def test_without_one_rank_nothing_is_split_and_the_run_abstains() -> None:
    whole = tables()
    part = {name: table.filter(pc.less(table["trace_id"], 3)) for name, table in whole.items()}
    con = engine.connect_tables(part)
    assert con.sql("SELECT DISTINCT present_count, expected_count, wait_ns FROM collective_members").fetchall() == [
        (3, 4, None)
    ]
    assert con.sql("SELECT count(*) FROM ledger_rows WHERE bucket = 'dev.comm_skew'").fetchall() == [(0,)]
    assert (Bounds.load(con).run_abstains() or "").startswith("missing-ranks: 3 of 4 ranks")


def test_groups_of_the_same_name_and_other_ranks_are_different_groups() -> None:
    program = [{"kernel": {"us": 50}}, {"comm": {"us": 100, "group": "tp"}}]
    told = {"ranks": 4, "steps": 5, "groups": {"tp": [[0, 1], [2, 3]]}, "program": program}
    con = engine.connect_tables(tables(told))
    rows = con.sql(
        "SELECT group_key, list(DISTINCT trace_id ORDER BY trace_id) FROM collective_members GROUP BY 1 ORDER BY 1"
    )
    assert rows.fetchall() == [("[0, 1]", [0, 1]), ("[2, 3]", [2, 3])]


def test_messages_do_not_wait_for_all() -> None:
    programs = [[{"exchange": {"to": 1 - rank, "from": 1 - rank, "us": 50}}, {"kernel": {}}] for rank in range(2)]
    con = engine.connect_tables(tables({"ranks": 2, "steps": 5, "programs": programs}))
    assert con.sql("SELECT DISTINCT synchronises FROM collective_members").fetchall() == [(False,)]
    assert (Bounds.load(con).run_abstains() or "").startswith("messages-between-ranks")


def test_one_rank_alone_is_bound_as_before() -> None:
    con = engine.connect_tables(tables({"steps": 6, "kernels": 40, "loader_us": 9_000}))
    bounds = Bounds.load(con)
    assert bounds.run_bound(frozenset({"host.dataloader"})) == bounds.bound(0, 0, frozenset({"host.dataloader"}))


def test_more_removed_on_more_ranks_saves_no_less() -> None:
    bounds = Bounds.load(engine.connect_tables(tables()))
    loader = frozenset({"host.dataloader"})
    found = [bounds.run_bound(dict.fromkeys(ranks, loader)) for ranks in ((), (0,), (0, 3), range(4))]
    assert found[0] == found[1] == 0
    assert found == sorted(found)
    assert found[2] > 0


def test_without_skew_all_ranks_are_as_fast_as_the_fastest() -> None:
    bounds = Bounds.load(engine.connect_tables(tables()))
    late = bounds.run_bound({3: frozenset({"host.dataloader"})})
    assert bounds.run_bound(frozenset({"dev.comm_skew"})) == pytest.approx(late, rel=0.02)


def scan_of(matches: list[int]) -> Scan:
    """Return a scan of nothing but collectives."""
    none = np.full(len(matches), -1)
    nothing_here = np.full(len(matches), None, dtype=object)
    limit = int(np.iinfo(np.int64).max // 4)
    return Scan(
        steps=[(True, 0, limit, -1, limit, -1, limit, 0) for _ in matches],
        is_op=np.ones(len(matches), np.bool_),
        in_window=np.ones(len(matches), np.bool_),
        end=np.arange(len(matches)) * 10 + 10,
        dur=np.full(len(matches), 10),
        match=np.asarray(matches),
        wait=np.zeros(len(matches), np.int64),
        removable=none * 0,
        own=none * 0,
        dispatch=none * 0,
        cause_of_wait=nothing_here,
        cause_of_op=nothing_here,
        cause_of_gap=nothing_here,
        costs={},
        position_of={at: at for at in range(len(matches))},
    )


def test_ranks_that_issue_in_different_order_do_not_wait_for_ever() -> None:
    run = RunScan.of_scans([scan_of([1, 2, 3]), scan_of([2, 1, 3])], {1: 2, 2: 2, 3: 2})
    met = [{position for _, position in meeting.members} for meeting in run.meetings]
    assert len(met) == 2
    assert met[-1] == {2}
    assert [walk.ends for walk in run.leads([Scenario(), Scenario()])] == [[0, 0, 0], [0, 0, 0]]


def test_a_collective_that_some_rank_has_outside_its_scan_is_no_meeting() -> None:
    run = RunScan.of_scans([scan_of([1, 2]), scan_of([1])], {1: 2, 2: 2})
    assert len(run.meetings) == 1


def test_clocks_and_order_of_traces_change_nothing() -> None:
    def told(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
        return con.sql("SELECT bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY 1 ORDER BY 1").fetchall()

    same = tables({**LATE, "clock_offset_us": 0})
    assert told(engine.connect_tables(tables())) == told(engine.connect_tables(same))


def test_the_metric_tells_each_collective_once() -> None:
    con = engine.connect_tables(tables())
    rows = con.sql(
        "SELECT collective_kind, group_key, present_count, expected_count, transfer_ns, last_rank, count(*) "
        "FROM collective_matches WHERE skew_ns > 1e6 GROUP BY ALL"
    ).fetchall()
    assert rows == [("allreduce", "[0, 1, 2, 3]", 4, 4, 200_000, 3, 6)]
    assert con.sql("SELECT count(*), min(comm_seq) FROM collective_matches").fetchall() == [(12, 1)]
