"""Collectives of several ranks: which kernels belong together, who waits for whom, and scans that meet in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from bound_against_truth import what_ifs
from workloads.bases import pipelined_job

from traceanalyzer.attribution.columns import NO_ROW, NamedRows
from traceanalyzer.attribution.matching_collectives import Call, is_message, name_of, pair_messages
from traceanalyzer.attribution.replay.all_ranks import JointScan
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.kernel import NO_LIMIT, ScanEvents
from traceanalyzer.attribution.replay.scan import Scan, WhatIf
from tracesim import in_memory, simulate_job

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


# What exports of Nsight Systems do not say of a collective, and the recorders of PyTorch do.
SAID = (
    "collective",
    "group_name",
    "group_size",
    "group_ranks",
    "comm_dtype",
    "in_elements",
    "out_elements",
    "comm_seq",
)


def without_groups(made: dict[str, pa.Table], traces: tuple[int, ...]) -> dict[str, pa.Table]:
    of_others = pc.is_in(made["gpu_ops"].column("trace_id"), pa.array(traces, pa.int32()))
    columns = {name: made["gpu_ops"].column(name) for name in SAID}
    return changed(made, **{name: pc.if_else(of_others, None, column) for name, column in columns.items()})


@pytest.mark.check
@pytest.mark.parametrize("traces", [(3,), (1, 3), (0, 1, 2)])
def test_ranks_of_two_recorders_meet_where_one_names_the_only_group(traces: tuple[int, ...]) -> None:
    made = tables()
    assert members(without_groups(made, traces)) == members(made)


@pytest.mark.check
def test_calls_without_a_group_are_of_none_where_others_name_several() -> None:
    made = tables(
        {
            "ranks": 4,
            "steps": 5,
            "groups": {"tp": [[0, 1], [2, 3]]},
            "program": [{"kernel": {"us": 50}}, {"comm": {"us": 100, "group": "tp"}}],
        }
    )
    alone = without_groups(made, (3,))
    assert {row[2] for row in members(alone) if row[0] == 3} == {None}


def saved(bounds: Bounds, removed: frozenset[str] | Mapping[int, frozenset[str]]) -> int:
    """Return how many ns shorter the slowest rank's window gets; `removed` holds for all ranks, or is by rank."""
    return bounds.run(what_ifs(bounds, removed)).saved_ns


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
    return in_memory.connect_tables(made).sql(MEMBERS).fetchall()


@pytest.mark.check
def test_what_each_rank_waits_is_what_the_simulator_let_it_wait() -> None:
    job = simulate_job(LATE)
    truth = [(rank, op.waited_ns) for rank, run in enumerate(job.ranks) for op in run.recording.ops if op.collective]
    assert [(trace, wait) for trace, _, wait, _ in members(job.canonical_tables())] == truth


@pytest.mark.check
def test_the_late_rank_is_named_where_it_costs_time() -> None:
    con = in_memory.connect_tables(tables())
    rows = con.sql(
        "SELECT trace_id, sum(dur_ns) > 10e6, any_value(blame_rank), count(DISTINCT blame_rank) FROM ledger_rows "
        "WHERE kept AND bucket = 'dev.straggler_wait' GROUP BY trace_id ORDER BY trace_id"
    ).fetchall()
    assert rows == [(0, True, 3, 1), (1, True, 3, 1), (2, True, 3, 1)]


@pytest.mark.check
def test_without_sequence_numbers_order_tells_the_same() -> None:
    made = tables()
    assert members(changed(made, comm_seq=nothing(made))) == members(made)


@pytest.mark.check
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


def test_an_all_to_all_whose_ranks_send_unlike_amounts_is_one_collective() -> None:
    made = tables({**LATE, "ranks": 2, "faults": [], "clock_offset_us": 0})
    ops = made["gpu_ops"]
    uneven = pc.if_else(pc.equal(ops["trace_id"], 1), pc.add(ops["in_elements"], 1), ops["in_elements"])
    name = pc.if_else(ops["is_comm"], "all_to_allv", None)
    found = changed(made, comm_seq=nothing(made), in_elements=uneven.combine_chunks(), collective=name.combine_chunks())
    assert members(found) == members(made)


@pytest.mark.check
def test_without_one_rank_nothing_is_split_and_the_run_abstains() -> None:
    whole = tables()
    part = {name: table.filter(pc.less(table["trace_id"], 3)) for name, table in whole.items()}
    con = in_memory.connect_tables(part)
    assert con.sql("SELECT DISTINCT present_count, expected_count, wait_ns FROM collective_members").fetchall() == [
        (3, 4, None)
    ]
    assert con.sql("SELECT count(*) FROM ledger_rows WHERE bucket = 'dev.straggler_wait'").fetchall() == [(0,)]
    assert (Bounds.load(con).run_abstains() or "").startswith("missing-ranks: 3 of 4 ranks")


def test_groups_of_the_same_name_and_other_ranks_are_different_groups() -> None:
    program = [{"kernel": {"us": 50}}, {"comm": {"us": 100, "group": "tp"}}]
    told = {"ranks": 4, "steps": 5, "groups": {"tp": [[0, 1], [2, 3]]}, "program": program}
    con = in_memory.connect_tables(tables(told))
    rows = con.sql(
        "SELECT group_key, list(DISTINCT trace_id ORDER BY trace_id) FROM collective_members GROUP BY 1 ORDER BY 1"
    )
    assert rows.fetchall() == [("[0, 1]", [0, 1]), ("[2, 3]", [2, 3])]


PIPELINE = pipelined_job(6)


@pytest.mark.check
def test_ends_of_a_message_belong_together_though_each_stage_numbers_its_own() -> None:
    job = simulate_job(PIPELINE)
    con = in_memory.connect_tables(job.canonical_tables())
    rows = con.sql("""
        SELECT match_id, list_sort(list(trace_id)), min(wait_ns), any_value(synchronises)
        FROM collective_members GROUP BY match_id
    """).fetchall()
    # Warm-up, steady state and drain: each stage but the last passes every batch on and gets its gradient back.
    assert all(later - earlier == 1 for _, (earlier, later), _, _ in rows)
    assert {(wait, synchronises) for _, _, wait, synchronises in rows} == {(0, True)}
    assert Bounds.load(con).run_abstains() is None


@pytest.mark.check
def test_what_a_stage_waits_for_a_message_is_what_the_simulator_let_it_wait() -> None:
    job = simulate_job(PIPELINE)
    truth = [(rank, op.waited_ns) for rank, run in enumerate(job.ranks) for op in run.recording.ops if op.collective]
    assert [(trace, wait) for trace, _, wait, _ in members(job.canonical_tables())] == truth


@pytest.mark.check
def test_messages_whose_peers_are_not_told_are_not_matched() -> None:
    made = without_peers_in_ranges(tables(PIPELINE))
    con = in_memory.connect_tables(made | {"event_args": made["event_args"].slice(0, 0)})
    assert con.sql("SELECT count(*) FROM collective_members WHERE wait_ns IS NOT NULL").fetchall() == [(0,)]
    assert (Bounds.load(con).run_abstains() or "").startswith("unmatched-collectives")


def without_peers_in_ranges(made: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return tables of a run whose ranges around messages do not name the ranks, such as `nccl:coalesced`."""
    slices = made["host_slices"]
    at = slices.schema.get_field_index("name")
    nameless = pc.replace_substring_regex(slices["name"], "^nccl:(send|recv) .*", "nccl:\\1")
    return made | {"host_slices": slices.set_column(at, slices.schema.field(at), nameless)}


PIPELINE_OF_TWO = [
    [{"kernel": {"us": 500}}, {"send": {"to": 1, "us": 20}}, {"recv": {"from": 1, "us": 20}}, {"kernel": {"us": 500}}],
    [{"recv": {"from": 0, "us": 20}}, {"kernel": {"us": 900}}, {"send": {"to": 0, "us": 20}}],
]


@pytest.mark.check
def test_the_peer_that_the_arguments_name_is_enough() -> None:
    made = tables(PIPELINE)
    assert members(without_peers_in_ranges(made)) == members(made)


@pytest.mark.check
def test_in_a_group_of_two_ranks_the_peer_is_the_other_one() -> None:
    made = tables({"ranks": 2, "steps": 4, "programs": PIPELINE_OF_TWO})
    nameless = without_peers_in_ranges(made)
    assert members(nameless | {"event_args": made["event_args"].slice(0, 0)}) == members(made)


def call(rank: int, op_id: int, *directions: tuple[int, int]) -> Call:
    """Return a kernel of a rank that is an end of messages."""
    return Call((rank, 0), op_id, 100 * op_id, 10, ("", None, None, None), None, True, directions)


def test_a_kernel_that_meets_two_others_is_tied_to_neither() -> None:
    # rank 0  send 0->1            The kernel of rank 1 leaves when the later one of its neighbours is ready.
    # rank 1  recv 0->1, send 1->2
    # rank 2  recv 1->2
    chain = [call(0, 1, (0, 1)), call(1, 2, (0, 1), (1, 2)), call(2, 3, (1, 2))]
    assert pair_messages(chain) == [[one] for one in chain]


def test_the_nth_send_meets_the_nth_receive_in_each_direction() -> None:
    there = [call(0, 1, (0, 1)), call(0, 2, (1, 0)), call(0, 3, (0, 1))]
    back = [call(1, 1, (0, 1)), call(1, 2, (0, 1)), call(1, 3, (1, 0))]
    assert pair_messages([*there, *back]) == [[there[0], back[0]], [there[1], back[2]], [there[2], back[1]]]


@pytest.mark.parametrize(
    ("collective", "kernel", "annotation", "told"),
    [
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "nccl:send 0->1", True),
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "nccl:coalesced", True),
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "nccl:all_to_all, op_id = 991698", False),
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "nccl:recv 1<-0, op_id = 7", True),
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "ncclGroupEnd", False),
        (None, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", None, False),
        (None, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "nccl:coalesced", False),
        ("recv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", None, True),
        ("all_to_allv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", None, False),
    ],
)
def test_the_range_around_a_kernel_tells_messages_from_collectives(
    collective: str | None, kernel: str, annotation: str | None, told: bool
) -> None:
    assert is_message(name_of(collective, kernel, annotation)) == told


def test_one_rank_alone_is_bound_as_before() -> None:
    con = in_memory.connect_tables(tables({"steps": 6, "kernels": 40, "loader_us": 9_000}))
    bounds = Bounds.load(con)
    assert saved(bounds, frozenset({"host.dataloader"})) == bounds.bound(0, 0, frozenset({"host.dataloader"}))


@pytest.mark.check
def test_more_removed_on_more_ranks_saves_no_less() -> None:
    bounds = Bounds.load(in_memory.connect_tables(tables()))
    loader = frozenset({"host.dataloader"})
    found = [saved(bounds, dict.fromkeys(ranks, loader)) for ranks in ((), (0,), (0, 3), range(4))]
    assert found[0] == found[1] == 0
    assert found == sorted(found)
    assert found[2] > 0


@pytest.mark.check
def test_without_skew_all_ranks_are_as_fast_as_the_fastest() -> None:
    bounds = Bounds.load(in_memory.connect_tables(tables()))
    late = saved(bounds, {3: frozenset({"host.dataloader"})})
    assert saved(bounds, frozenset({"dev.straggler_wait"})) == pytest.approx(late, rel=0.02)


def scan_of(matches: list[int]) -> Scan:
    """Return a scan of nothing but collectives."""
    none = np.full(len(matches), NO_ROW)
    nothing_here = NamedRows(np.zeros(len(matches), np.int64), (None,))
    return Scan(
        events=ScanEvents(
            is_op=none == NO_ROW,
            host_slack_ns=none * 0,
            shift_limit_ns=np.full(len(matches), NO_LIMIT),
            pred1=none,
            pred1_slack_ns=np.full(len(matches), NO_LIMIT),
            pred2=none,
            pred2_slack_ns=np.full(len(matches), NO_LIMIT),
            more=[()] * len(matches),
            explained_wait_ns=none * 0,
        ),
        in_window=np.ones(len(matches), np.bool_),
        end=np.arange(len(matches)) * 10 + 10,
        dur=np.full(len(matches), 10),
        match=np.asarray(matches),
        wait=np.zeros(len(matches), np.int64),
        removable=none * 0,
        dispatch=none * 0,
        cause_of_wait=nothing_here,
        cause_of_op=nothing_here,
        cause_of_gap=nothing_here,
        costs={},
        op_id=np.arange(len(matches)),
    )


def test_ranks_that_issue_in_different_order_do_not_wait_for_ever() -> None:
    run = JointScan.of_scans([scan_of([1, 2, 3]), scan_of([2, 1, 3])], {1: 2, 2: 2, 3: 2})
    points = run.sync_points.points()
    assert points.first.tolist() == [0, 2, 4]
    assert points.position[2:].tolist() == [2, 2]
    assert run.shifts([WhatIf(), WhatIf()]) == [None, None]


def test_a_collective_that_some_rank_has_outside_its_scan_is_no_meeting() -> None:
    run = JointScan.of_scans([scan_of([1, 2]), scan_of([1])], {1: 2, 2: 2})
    assert run.sync_points.points().first.tolist() == [0, 2]


@pytest.mark.check
def test_clocks_and_order_of_traces_change_nothing() -> None:
    def told(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
        return con.sql("SELECT bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY 1 ORDER BY 1").fetchall()

    same = tables({**LATE, "clock_offset_us": 0})
    assert told(in_memory.connect_tables(tables())) == told(in_memory.connect_tables(same))


@pytest.mark.check
def test_the_metric_tells_each_collective_once() -> None:
    con = in_memory.connect_tables(tables())
    rows = con.sql(
        "SELECT collective_kind, group_key, present_count, expected_count, transfer_ns, last_rank, count(*) "
        "FROM collective_matches WHERE skew_ns > 1e6 GROUP BY ALL"
    ).fetchall()
    assert rows == [("allreduce", "[0, 1, 2, 3]", 4, 4, 200_000, 3, 6)]
    assert con.sql("SELECT count(*), min(comm_seq) FROM collective_matches").fetchall() == [(12, 1)]


@pytest.mark.check
def test_many_scenarios_of_all_ranks_at_once_say_what_each_says_alone() -> None:
    bounds = Bounds.load(in_memory.connect_tables(tables()))
    causes = sorted(set().union(*(bounds.causes(*device_key) for device_key in bounds.device_keys)))
    asked = [what_ifs(bounds, frozenset({cause})) for cause in causes]
    asked += [what_ifs(bounds, {rank: frozenset(causes)}) for rank in range(4)]
    asked += [what_ifs(bounds, frozenset(causes[:i])) for i in range(len(causes))]
    assert bounds.runs(asked) == [bounds.run(scenarios) for scenarios in asked]
    assert len({bound.saved_ns for bound in bounds.runs(asked)}) > 4
