"""The bound of a fix comes true: the simulator, run again without the fault, saves what the lead scan said."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from drawn_timeline import Drawn

from traceanalyzer import engine
from traceanalyzer.attribution import Bounds, Scenario
from traceanalyzer.simulator.simulate import SimulatedRun, simulate

BASE = {"steps": 7, "kernels": 100, "kernel_us": 80, "loader_us": 200}
LAUNCH_BOUND = {"kernels": 400, "kernel_us": 5, "host_us": 8}
DECODE = {"graph": True, "kernels": 300, "kernel_us": 5, "host_us": 2000, "item_per_step": 1}
PAGEABLE = {"h2d_mb": 64, "h2d_pinned": False}

WORKLOADS: dict[str, dict[str, Any]] = {
    "healthy": {},
    "item": {"item_per_step": 1},
    "hidden loader": {"loader_us": 6000},
    "exposed loader": {"loader_us": 15000},
    "loader and item": {"loader_us": 5000, "item_per_step": 1},
    "long loader and item": {"loader_us": 15000, "item_per_step": 1},
    "launch bound": LAUNCH_BOUND,
    "launch bound and item": LAUNCH_BOUND | {"item_per_step": 1},
    "launch bound and loader": LAUNCH_BOUND | {"loader_us": 3000},
    "operators": LAUNCH_BOUND | {"op_us": 4},
    "garbage": {"gc_us": 60000, "gc_every": 3},
    "allocation": {"malloc_per_step": 10, "malloc_us": 1500},
    "freeing": {"free_per_step": 4},
    "syncs": {"sync_per_step": 10},
    "pageable": PAGEABLE,
    "pageable and loader": PAGEABLE | {"loader_us": 5000},
    "copy in order": {"h2d_mb": 100, "h2d_stream": "compute"},
    "copy beside": {"h2d_mb": 100},
    "collective after": {"comm_us": 3000},
    "collective beside": {"comm_us": 3000, "comm_blocking": False, "comm_count": 8},
    "decode": DECODE,
    "profiler": {"overhead_us": 10000},
    "recompilation": {"compile_us": 30000, "compile_every": 2},
    "inference": {"mode": "inference", "loader_us": 12000},
}

CASES: list[tuple[str, tuple[str, ...], float]] = [
    ("healthy", ("host.dataloader",), 1),
    ("healthy", ("host.python", "host.launch_api", "host.op"), 1),
    ("item", ("host.sync",), 1),
    ("hidden loader", ("host.dataloader",), 1),
    ("hidden loader", (), 0.5),
    ("hidden loader", ("host.dataloader",), 0.5),
    ("exposed loader", ("host.dataloader",), 1),
    ("exposed loader", (), 0.5),
    ("exposed loader", ("host.dataloader",), 0.5),
    ("loader and item", ("host.dataloader",), 1),
    ("loader and item", ("host.sync",), 1),
    ("loader and item", ("host.dataloader", "host.sync"), 1),
    ("loader and item", ("host.sync",), 0.8),
    ("long loader and item", ("host.dataloader",), 1),
    ("long loader and item", ("host.sync",), 1),
    ("launch bound", ("host.python",), 1),
    ("launch bound", ("host.launch_api",), 1),
    ("launch bound", ("host.python", "host.launch_api"), 1),
    ("launch bound", (), 0.5),
    ("launch bound and item", ("host.sync",), 1),
    ("launch bound and item", ("host.python",), 1),
    ("launch bound and loader", ("host.dataloader",), 1),
    ("launch bound and loader", ("host.dataloader", "host.python"), 1),
    ("operators", ("host.op",), 1),
    ("garbage", ("host.gc",), 1),
    ("garbage", ("host.gc",), 0.5),
    ("allocation", ("host.alloc",), 1),
    ("freeing", ("host.alloc",), 1),
    ("syncs", ("host.sync",), 1),
    ("syncs", ("host.sync",), 0.5),
    ("pageable", ("host.memcpy_block",), 1),
    ("pageable", ("dev.h2d",), 1),
    ("pageable", ("dev.h2d", "host.memcpy_block"), 1),
    ("pageable and loader", ("host.dataloader",), 1),
    ("pageable and loader", ("host.memcpy_block",), 1),
    ("copy in order", ("dev.h2d",), 1),
    ("copy beside", ("dev.h2d",), 1),
    ("collective after", ("dev.comm_transfer",), 1),
    ("collective after", ("dev.comm_transfer",), 0.5),
    ("collective beside", ("dev.comm_transfer",), 1),
    ("decode", ("host.sync",), 1),
    ("decode", ("host.python",), 1),
    ("profiler", ("host.profiler",), 1),
    ("recompilation", ("host.compile",), 1),
    ("inference", ("host.dataloader",), 1),
]


class Attributed:
    """A simulated workload with its attribution, read over the steps that the window kept."""

    def __init__(self, run: SimulatedRun) -> None:
        self.run = run
        self.con = engine.connect_tables(run.canonical_tables(), readers=("host_cause_bounds",))
        self.bounds = Bounds.load(self.con)
        kept = [step for (step,) in self.con.sql("SELECT step FROM attribution.steps WHERE kept").fetchall()]
        self.steps: tuple[int, int] = min(kept), max(kept) + 1

    def window_ns(self, run: SimulatedRun) -> int:
        first, last = (run.boundaries_ns[step] for step in self.steps)
        return last - first

    def savings(self, scale: float) -> dict[int, int]:
        ops = "SELECT op_id, dur_ns FROM gpu_ops WHERE kind = 'kernel' AND NOT is_comm"
        return {op: dur - round(dur * scale) for op, dur in self.con.sql(ops).fetchall()}


@cache
def attributed(workload: str) -> Attributed:
    return Attributed(simulate(BASE | WORKLOADS[workload]))


@pytest.mark.parametrize(("workload", "causes", "kernel_scale"), CASES)
def test_bound_is_what_the_rerun_without_the_cause_saves(
    workload: str, causes: tuple[str, ...], kernel_scale: float
) -> None:
    made = attributed(workload)
    window = made.window_ns(made.run)
    scaled = None if kernel_scale == 1 else {"compute": kernel_scale}
    truth = (window - made.window_ns(made.run.without(*causes, kernel_scale=scaled))) / window
    savings = None if kernel_scale == 1 else made.savings(kernel_scale)
    bound = made.bounds.bound(0, 0, frozenset(causes), savings) / window
    assert made.bounds.abstains(0, 0) is None
    assert bound == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_ledger_is_the_true_one(workload: str) -> None:
    made = attributed(workload)
    window = made.window_ns(made.run)
    truth = made.run.true_ledger_of(*made.steps)
    rows = made.con.sql("SELECT bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY bucket").fetchall()
    ledger = {bucket: int(ns) for bucket, ns in rows}
    assert sum(ledger.values()) == window
    for bucket in ledger.keys() | truth.keys():
        assert ledger.get(bucket, 0) / window == pytest.approx(truth.get(bucket, 0) / window, abs=0.01), bucket


def test_single_causes_of_the_table_are_the_bounds_asked_for() -> None:
    made = attributed("loader and item")
    rows = made.con.sql("SELECT cause, bound_ns FROM host_cause_bounds").fetchall()
    assert rows == [(cause, made.bounds.bound(0, 0, frozenset({cause}))) for cause, _ in rows]
    assert {"host.dataloader", "host.sync"} <= {cause for cause, _ in rows}


def test_bound_of_all_host_causes_is_at_least_each_ones() -> None:
    made = attributed("launch bound and loader")
    causes = frozenset(cause for cause in made.bounds.causes(0, 0) if cause.startswith("host."))
    together = made.bounds.bound(0, 0, causes)
    assert all(made.bounds.bound(0, 0, frozenset({cause})) <= together for cause in causes)


def test_bounds_abstain_where_launches_are_missing() -> None:
    tables = simulate(BASE).canonical_tables()
    ops = tables["gpu_ops"]
    lost = ops.set_column(
        ops.schema.get_field_index("launch_id"),
        "launch_id",
        [[launch if row % 3 else None for row, launch in enumerate(ops["launch_id"].to_pylist())]],
    )
    con = engine.connect_tables(tables | {"gpu_ops": lost})
    assert (Bounds.load(con).abstains(0, 0) or "").startswith("low-link-rate")
    assert con.sql("SELECT count(bound_ns), count(abstains) > 0 FROM host_cause_bounds").fetchall() == [(0, True)]


def test_bounds_abstain_where_two_threads_issue_at_once() -> None:
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    for i in range(40):
        slices.append(f"{i + 1} {i % 2} runtime cudaLaunchKernel {20 * i} {20 * i + 5}")
        ops.append(f"{i + 101} 7 kernel {20 * i + 10} {20 * i + 18} {i + 1}")
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert (Bounds.load(drawn.con).abstains(0, 0) or "").startswith("several-issuing-threads")


def test_bounds_abstain_where_graphs_hide_their_kernels() -> None:
    drawn = Drawn.of(
        "id thread category name start end\n1 0 runtime cudaGraphLaunch 0 5",
        "id stream kind start end launch\n9 7 graph 10 100 1",
    )
    assert (Bounds.load(drawn.con).abstains(0, 0) or "").startswith("opaque-graphs")


def test_host_time_before_the_first_launch_counts_once_the_device_worked() -> None:
    # Pages migrate before anything is launched; the launch comes late.
    drawn = Drawn.of(
        "id thread category name start end\n3 0 python train.py 0 480\n1 0 runtime cudaLaunchKernel 480 485",
        "id stream kind start end launch\n8 0 h2d 0 100 -\n9 7 kernel 490 600 1",
    )
    bounds = Bounds.load(drawn.con)
    assert bounds.abstains(0, 0) is None
    assert bounds.bound(0, 0, frozenset({"host.python"})) == pytest.approx(480_000, abs=1_000)


def test_work_queued_before_the_trace_leads_to_what_was_launched_behind_it() -> None:
    #  host    |L L                        (both launches long before their turn)
    #  device  |copy copy| kernel |copy| kernel       (the last could start at 20, when it is launched)
    drawn = Drawn.of(
        "id thread category name start end\n1 0 runtime cudaMemcpyAsync 0 5\n2 0 runtime cudaLaunchKernel 10 15",
        """id stream kind start end launch
           5 7 h2d 0 100 -
           6 7 h2d 100 200 -
           7 7 kernel 200 210 -
           8 7 h2d 210 310 1
           9 7 kernel 310 330 2""",
    )
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"dev.h2d"})) == pytest.approx(290_000, abs=1_000)


@pytest.mark.parametrize(("alternations", "trusted"), [(1, True), (4, False)])
def test_short_steps_may_hand_over_to_the_backward_pass(alternations: int, trusted: bool) -> None:
    # Each step of ten launches goes to the autograd thread and back, once or by turns.
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    for step in range(10):
        begin = 1_000 * step
        slices.append(f"{step + 1} 0 annotation ProfilerStep#{step} {begin} {begin + 990}")
        for launch in range(10):
            number, at = 100 + 10 * step + launch, begin + 90 * launch
            slices.append(f"{number} {2 * alternations * launch // 10 % 2} runtime cudaLaunchKernel {at} {at + 5}")
            ops.append(f"{number + 1_000} 7 kernel {at + 10} {at + 80} {number}")
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert (Bounds.load(drawn.con).abstains(0, 0) is None) == trusted


# host    |L1 |L2 |wait for an event after 1|L3
# device  |= 1 ===============|======= 2 ========|=3=
EVENT_WAIT = """
id thread category name                 start end
1  0      runtime  cudaLaunchKernel     0     5
2  0      runtime  cudaEventRecord      6     8
3  0      runtime  cudaLaunchKernel     10    15
4  0      runtime  cudaEventSynchronize 20    110
5  0      runtime  cudaLaunchKernel     120   125
"""
BEHIND_EVENT = "id stream kind start end launch\n90 7 kernel 10 107 1\n91 7 kernel 108 300 3\n92 7 kernel 301 310 5"
AWAITED = """
SELECT waited.op_id
FROM attribution.lead_events AS call
JOIN attribution.lead_events AS waited ON waited.position = call.first_position
WHERE call.op_id IS NULL
"""


def test_a_wait_for_an_event_ends_with_the_op_before_it_though_its_stream_goes_on() -> None:
    assert Drawn.of(EVENT_WAIT, BEHIND_EVENT).rows(AWAITED) == [(90,)]


def test_a_recorded_event_says_which_op_was_waited_for() -> None:
    # An op of stream 9 ends just then, and is older than the event: only the record tells them apart.
    slices = EVENT_WAIT + "6  0      runtime  cudaLaunchKernel     -10   -5\n"
    drawn = Drawn.of(
        slices,
        BEHIND_EVENT + "\n93 9 kernel 0 109 6",
        "call stream wait_on_stream wait_on_call kind\n4 - 7 2 event",
    )
    assert drawn.rows(AWAITED) == [(90,)]


@pytest.mark.parametrize(("begins", "awaited"), [(13, 92), (60, 91)])
def test_a_wait_that_follows_a_copy_is_for_its_stream(begins: int, awaited: int) -> None:
    # A kernel ends just after the copy. Only a call that comes right after the copy's says for which stream it is.
    drawn = Drawn.of(
        f"""
        id thread category name                  start    end
        1  0      runtime  cudaLaunchKernel      0        2
        2  0      runtime  cudaMemcpyAsync       10       12
        3  0      runtime  cudaStreamSynchronize {begins} 204
        4  0      runtime  cudaLaunchKernel      210      212
        """,
        "id stream kind start end launch\n91 7 kernel 6 202 1\n92 20 h2d 14 200 2\n93 7 kernel 216 300 4",
    )
    assert drawn.rows(AWAITED) == [(awaited,)]


@pytest.mark.parametrize("kernel_us", [3, 9])
def test_launches_that_are_left_out_leave_room_and_time_to_the_others(kernel_us: int) -> None:
    def told(*, foreach: bool) -> dict[str, Any]:
        update = {"parameters": 200, "us": kernel_us, "py_us": 4, "op_us": 2, "foreach": foreach}
        return {"steps": 6, "program": [{"repeat": 100, "do": [{"kernel": {"us": 80}}]}, {"optimizer": update}]}

    one_by_one, together = (Attributed(simulate(told(foreach=foreach))) for foreach in (False, True))
    # Of each 30 kernels of the optimizer one is left.
    rows = one_by_one.con.sql("""
        SELECT op_id, dur_ns
        FROM (
            SELECT ops.*, row_number() OVER (PARTITION BY ops.annotation_id ORDER BY ops.start_ns) AS number
            FROM gpu_ops AS ops JOIN host_slices AS slices ON slices.slice_id = ops.annotation_id
            WHERE slices.name LIKE 'Optimizer.step%'
        )
        WHERE number % 30 <> 1
    """).fetchall()
    scenario = Scenario(savings=dict(rows), launches=frozenset(op_id for op_id, _ in rows))
    window = one_by_one.window_ns(one_by_one.run)
    truth = (window - together.window_ns(together.run)) / window
    assert one_by_one.bounds.bounds(0, 0, [scenario])[0] / window == pytest.approx(truth, abs=0.01)


def test_unknown_devices_have_no_bounds() -> None:
    made = attributed("healthy")
    assert made.bounds.bound(0, 9, frozenset({"host.sync"})) == 0
    assert made.bounds.abstains(0, 9) is not None
