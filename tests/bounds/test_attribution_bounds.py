"""Bounds of small timelines and single workloads; test_counterfactuals holds those of many against re-simulations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from bound_against_truth import Attributed, attributed
from drawn_timeline import Drawn
from drawn_timeline import tables as drawn_tables
from workloads.workloads import WORKLOADS

from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.attribution.replay.scan import WhatIf
from traceanalyzer.schema import canonical_tables
from tracesim import in_memory
from tracesim.simulate import simulate


def test_single_causes_of_the_table_are_the_bounds_asked_for() -> None:
    made = attributed("loader and item")
    rows = made.con.sql("SELECT cause, bound_ns FROM host_cause_bounds").fetchall()
    assert rows == [(cause, made.bounds.bound(0, 0, frozenset({cause}))) for cause, _ in rows]
    assert {"host.dataloader", "host.sync"} <= {cause for cause, _ in rows}


@pytest.mark.check
def test_bound_of_all_host_causes_is_at_least_each_ones() -> None:
    made = attributed("launch-bound with loader")
    causes = frozenset(cause for cause in made.bounds.causes(0, 0) if cause.startswith("host."))
    together = made.bounds.bound(0, 0, causes)
    assert all(made.bounds.bound(0, 0, frozenset({cause})) <= together for cause in causes)


def test_pages_of_managed_memory_move_when_the_host_comes_to_them() -> None:
    # The host fills an array of managed memory, launches a kernel, waits for it and reads the result.
    drawn = Drawn.of(
        """
        id thread category name                  start end
        1  0      runtime  cudaLaunchKernel      1000  1002
        2  0      runtime  cudaDeviceSynchronize 1002  1042
        """,
        """
        id stream kind   start end launch
        91 0      pages  0     4    -
        92 7      kernel 1005  1040 1
        93 0      pages  1100  1104 -
        """,
    )
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"host.other"})) == pytest.approx(1_000_000, abs=5_000)


def test_bounds_abstain_where_launches_are_missing() -> None:
    tables = simulate(WORKLOADS["exposed loader"]).canonical_tables()
    ops = tables["gpu_ops"]
    lost = ops.set_column(
        ops.schema.get_field_index("launch_id"),
        "launch_id",
        [[launch if row % 3 else None for row, launch in enumerate(ops["launch_id"].to_pylist())]],
    )
    con = in_memory.connect_tables(tables | {"gpu_ops": lost})
    assert (Bounds.load(con).abstains(0, 0) or "").startswith("low-link-rate")
    assert con.sql("SELECT count(bound_ns), count(abstains) > 0 FROM host_cause_bounds").fetchall() == [(0, True)]


@pytest.mark.parametrize(("gap", "known"), [(1, True), (15, False)])
def test_a_device_that_hardly_waits_needs_no_launches_for_its_bounds(gap: int, known: bool) -> None:
    # gpu   [== kernel ==][== kernel ==][== kernel ==]      no call is in the trace
    ops = [f"{i} 7 kernel {(90 + gap) * i} {(90 + gap) * i + 90} -" for i in range(10)]
    drawn = Drawn.of("id thread category name start end", "\n".join(["id stream kind start end launch", *ops]))
    assert (Bounds.load(drawn.con).abstains(0, 0) is None) is known


def test_bounds_abstain_where_two_threads_issue_at_once() -> None:
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    for i in range(40):
        slices.append(f"{i + 1} {i % 2} runtime cudaLaunchKernel {20 * i} {20 * i + 5}")
        ops.append(f"{i + 101} 7 kernel {20 * i + 10} {20 * i + 18} {i + 1}")
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert (Bounds.load(drawn.con).abstains(0, 0) or "").startswith("several-issuing-threads")


@pytest.mark.parametrize(("call_ns", "known"), [(5, True), (25, False)])
def test_short_passes_of_training_take_turns_with_their_backward_passes(call_ns: int, known: bool) -> None:
    # thread 0  |LLLLL     LLLLL     …                      (five launches of a forward pass)
    # thread 1  |     LLLLL     LLLLL…                      (five of its backward pass)
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    slices.append("1000 1 cpu_op MmBackward0 100 101")
    for i in range(100):
        slices.append(f"{i + 1} {i // 5 % 2} runtime cudaLaunchKernel {20 * i} {20 * i + call_ns}")
        ops.append(f"{i + 101} 7 kernel {20 * i + 28} {20 * i + 38} {i + 1}")
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert (Bounds.load(drawn.con).abstains(0, 0) is None) is known


def test_a_replay_that_was_recorded_whole_is_launched_as_a_kernel_is() -> None:
    #  host    |L|    python     |L
    #  device     |  graph  |       |  graph  |
    drawn = Drawn.of(
        """id thread category name start end
           1 0 runtime cudaGraphLaunch 0 5
           2 0 python schedule 100 295
           3 0 runtime cudaGraphLaunch 295 300""",
        "id stream kind start end launch\n8 7 graph 10 100 1\n9 7 graph 310 400 3",
    )
    bounds = Bounds.load(drawn.con)
    assert bounds.abstains(0, 0) is None
    assert bounds.bound(0, 0, frozenset({"host.python"})) == pytest.approx(195_000, abs=1_000)


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
FROM attribution.replay_events AS call
JOIN attribution.replay_events AS waited ON waited.position = call.pred1_position
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


@pytest.mark.check
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
    scenario = WhatIf(savings=dict(rows), launches=frozenset(op_id for op_id, _ in rows))
    window_ns = one_by_one.window_ns
    truth = (window_ns - together.window_ns) / window_ns
    assert one_by_one.bounds.bounds(0, 0, [scenario])[0] / window_ns == pytest.approx(truth, abs=0.01)


def test_unknown_devices_have_no_bounds() -> None:
    made = attributed("healthy")
    assert made.bounds.bound(0, 9, frozenset({"host.sync"})) == 0
    assert made.bounds.abstains(0, 9) is not None


# Eighteen kernels on streams of their own, one launched after the other was waited for.
_WAITED_KERNELS = (
    "id thread category name start end\n"
    + "\n".join(
        f"{n} 0 runtime cudaLaunchKernel {100 * n} {100 * n + 5}\n"
        f"{n + 500} 0 runtime cudaDeviceSynchronize {100 * n + 5} {100 * n + 95}"
        for n in range(1, 19)
    ),
    "id stream kind start end launch\n"
    + "\n".join(f"{n + 900} {n} kernel {100 * n + 6} {100 * n + 91} {n}" for n in range(1, 19)),
)


def with_grids(tables: dict[str, pa.Table], blocks: int, sm_count: int) -> dict[str, pa.Table]:
    """Return the tables of a T4, whose SMs hold 16 blocks of 64 threads, with the same grid for every kernel."""
    shape = dict(
        zip(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), (blocks, 1, 1, 64, 1, 1), strict=True)
    )
    ops = [op | shape | {"registers_per_thread": 32} for op in tables["gpu_ops"].to_pylist()]
    device = {"trace_id": 0, "device": 0, "name": "Tesla T4", "vendor": "nvidia", "sm_count": sm_count}
    device |= {"compute_major": 7, "compute_minor": 5, "warp_size": 32, "max_threads_per_sm": 1024}
    made = {"gpu_ops": ops, "devices": [device]}
    return tables | {
        name: pa.Table.from_pylist(rows, canonical_tables()[name].arrow_schema()) for name, rows in made.items()
    }


@pytest.mark.parametrize(
    ("blocks", "least_left_us"),
    [(2560, 18 * 85), (2048, 18 * 85 * 0.8), (64, 85)],
    ids=["four full waves", "three waves and a fifth", "a tenth of a wave"],
)
def test_kernels_that_fill_the_device_do_not_run_at_once(blocks: int, least_left_us: float) -> None:
    con = in_memory.connect_tables(with_grids(drawn_tables(*_WAITED_KERNELS), blocks, 40))
    bounds = Bounds.load(con)
    left_ns = bounds.devices[0, 0].window_ns - bounds.bound(0, 0, frozenset({"host.sync", "host.launch_api"}))
    assert left_ns >= least_left_us * 1_000
    assert left_ns < max(3 * 85_000, 1.05 * least_left_us * 1_000)


def test_copies_in_one_direction_do_not_run_at_once_on_several_streams() -> None:
    # Four times, each on a stream of its own: a copy to the device, a kernel, and a longer copy back.
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    for n in range(4):
        at, call = 110 * n, 5 * n
        slices += [f"{call + k} 0 runtime cudaMemcpyAsync {at + k} {at + k + 1}" for k in (1, 3)]
        slices.append(f"{call + 2} 0 runtime cudaLaunchKernel {at + 2} {at + 3}")
        slices.append(f"{call + 4} 0 runtime cudaStreamSynchronize {at + 4} {at + 108}")
        ops.append(f"{call + 91} {n + 1} h2d {at + 5} {at + 45} {call + 1}")
        ops.append(f"{call + 92} {n + 1} kernel {at + 46} {at + 50} {call + 2}")
        ops.append(f"{call + 93} {n + 1} d2h {at + 51} {at + 104} {call + 3}")
    bounds = Bounds.load(in_memory.connect_tables(drawn_tables("\n".join(slices), "\n".join(ops))))
    window_ns, sync = bounds.devices[0, 0].window_ns, frozenset({"host.sync"})
    assert window_ns - bounds.bound(0, 0, sync | {"dev.h2d"}) == 4 * 53_000
    assert window_ns - bounds.bound(0, 0, sync, {5 * n + 91: 35_000 for n in range(4)}) == 4 * 53_000
    # Removing both directions leaves neither to wait for.
    assert window_ns - bounds.bound(0, 0, sync | {"dev.h2d", "dev.d2h"}) < 4 * 53_000
