"""Steps on the host and on the device, and which of them count."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from traceanalyzer.attribution.replay.bounds import Bounds


def loop(steps: int, name: str = "ProfilerStep#{0}", category: str = "annotation", tail: bool = False) -> Drawn:
    """Return a loop of steps of 100 us with one kernel of 50 us each, launched 10 us into the step."""
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(steps + tail):
        if i < steps:
            slices.append(f"{i + 1} 0 {category} {name.format(i + 3)} {100 * i} {100 * i + 99}")
        slices.append(f"{i + 101} 0 runtime cudaLaunchKernel {100 * i + 10} {100 * i + 15}")
        ops.append(f"{i + 201} 7 kernel {100 * i + 20} {100 * i + 70} {i + 101}")
    return Drawn.of("\n".join(slices), "\n".join(ops))


STEPS = "SELECT step, (start_ns / 1000)::INT, (end_ns / 1000)::INT, drop_reason FROM attribution.steps ORDER BY step"


def test_step_on_the_device_runs_from_kernel_to_kernel_and_the_first_one_from_its_host_start() -> None:
    assert loop(3, tail=True).rows(STEPS) == [(3, 0, 120, None), (4, 120, 220, None), (5, 220, 320, None)]


def test_last_step_without_an_end_is_dropped_while_two_remain() -> None:
    assert [row[3] for row in loop(3).rows(STEPS)] == [None, None, "end not in the trace"]
    assert [row[3] for row in loop(2).rows(STEPS)] == [None, None]


def test_first_of_four_steps_is_warm_up() -> None:
    assert [row[3] for row in loop(4).rows(STEPS)] == ["warm-up", None, None, "end not in the trace"]


def test_single_step_is_the_window_up_to_the_end_of_its_work() -> None:
    drawn = loop(1)
    assert drawn.rows(STEPS) == [(3, 0, 70, None)]
    assert drawn.rows("SELECT step_count, window_ns, measure_at_op_id FROM windows") == [(1, 70_000, None)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("ProfilerStep#{0}", "ProfilerStep"),
        ("step~{0}", "annotation"),
        ("execute_context_2(15)_generation_{0}({0})", "annotation"),
    ],
)
def test_steps_are_found_by_name(name: str, source: str) -> None:
    assert loop(3, name).rows("SELECT step_source, step_count FROM windows") == [(source, 2)]


def test_optimizer_ends_stand_in_for_steps() -> None:
    drawn = loop(4, "Optimizer.step#SGD.step")
    assert drawn.rows("SELECT step_source FROM windows") == [("optimizer",)]
    assert drawn.rows(STEPS) == [(0, 120, 220, None), (1, 220, 320, None), (2, 320, 370, "end not in the trace")]


def test_other_annotations_are_no_steps() -> None:
    drawn = loop(3, "forward")
    assert drawn.rows("SELECT step_source, step_count, window_ns FROM windows") == [(None, 0, 250_000)]
    assert drawn.rows("SELECT count(*) FROM ledger_rows WHERE NOT kept OR step IS NOT NULL") == [(0,)]


def test_step_written_in_two_categories_counts_once() -> None:
    drawn = Drawn.of(
        """
        id thread category   name             start end
        1  0      annotation ProfilerStep#1   0     100
        2  0      cpu_op     ProfilerStep#1   1     99
        3  0      annotation ProfilerStep#2   100   200
        4  0      cpu_op     ProfilerStep#2   101   199
        5  0      runtime    cudaLaunchKernel 10    12
        6  0      runtime    cudaLaunchKernel 110   112
        """,
        "id stream kind start end launch\n10 7 kernel 20 50 5\n11 7 kernel 120 150 6",
    )
    assert drawn.rows("SELECT step FROM attribution.steps ORDER BY 1") == [(1,), (2,)]


def test_copies_that_run_ahead_do_not_move_the_step() -> None:
    # copies  [c0][c1][c2]            issued early, on a stream of their own
    # compute     [==0==][==1==][==2==]
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(3):
        slices += [
            f"{i + 1} 0 annotation ProfilerStep#{i} {10 * i} {10 * i + 10}",
            f"{i + 11} 0 runtime cudaMemcpyAsync {10 * i + 1} {10 * i + 2}",
            f"{i + 21} 0 runtime cudaLaunchKernel {10 * i + 3} {10 * i + 4}",
        ]
        ops += [
            f"{i + 31} 20 h2d {10 * i + 5} {10 * i + 9} {i + 11}",
            f"{i + 41} 7 kernel {200 + 100 * i} {300 + 100 * i} {i + 21}",
        ]
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert [row[1:3] for row in drawn.rows(STEPS)] == [(200, 300), (300, 400), (400, 500)]


@pytest.mark.sampled
@pytest.mark.parametrize(("steps", "lead_ins"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3)])
def test_steps_hold_as_many_times_ahead_of_a_first_kernel_as_there_are_steps(steps: int, lead_ins: int) -> None:
    # Each step: 60 µs of the host, then a kernel of 30 µs, for which the host waits.
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    for i in range(steps):
        slices += [
            f"{i + 1} 0 annotation ProfilerStep#{i} {100 * i} {100 * i + 100}",
            f"{i + 21} 0 runtime cudaLaunchKernel {100 * i + 60} {100 * i + 65}",
            f"{i + 41} 0 runtime cudaDeviceSynchronize {100 * i + 65} {100 * i + 98}",
        ]
        ops.append(f"{i + 61} 7 kernel {100 * i + 66} {100 * i + 96} {i + 21}")
    drawn = Drawn.of("\n".join(slices), "\n".join(ops))
    assert drawn.rows("SELECT step_count FROM windows") == [(lead_ins,)]
    idle = drawn.rows("SELECT sum(dur_ns) FROM ledger_rows WHERE kept AND bucket <> 'compute'")
    assert drawn.rows("SELECT compute_ns FROM windows") == [(30_000 * lead_ins,)]
    assert lead_ins * 60_000 <= idle[0][0] <= lead_ins * 70_000


def test_step_that_launched_nothing_is_dropped_and_leaves_no_hole() -> None:
    drawn = Drawn.of(
        """
        id thread category   name             start end
        1  0      annotation ProfilerStep#1   0     100
        2  0      annotation ProfilerStep#2   100   200
        3  0      annotation ProfilerStep#3   200   300
        5  0      runtime    cudaLaunchKernel 10    12
        6  0      runtime    cudaLaunchKernel 210   212
        """,
        "id stream kind start end launch\n10 7 kernel 20 50 5\n11 7 kernel 220 250 6",
    )
    assert drawn.rows(STEPS) == [(1, 0, 220, None), (2, 220, 220, "no GPU work"), (3, 220, 250, None)]


def test_steps_of_a_trace_without_launches_are_all_dropped() -> None:
    drawn = Drawn.of(
        "id thread category name start end\n1 0 annotation ProfilerStep#1 0 100",
        "id stream kind start end launch\n10 7 kernel 20 50 -",
    )
    assert drawn.rows(STEPS) == [(1, None, None, "no GPU work")]
    assert drawn.rows("SELECT step_count, window_ns FROM windows") == [(0, 30_000)]


def test_rows_are_cut_at_the_bounds_of_steps() -> None:
    drawn = loop(3, tail=True)
    sums = drawn.rows("SELECT step, sum(dur_ns) FROM time_ledger WHERE step IS NOT NULL GROUP BY step ORDER BY step")
    assert sums == [(3, 120_000), (4, 100_000), (5, 100_000)]
    assert drawn.rows("SELECT sum(dur_ns) FROM time_ledger WHERE step IS NULL") == [(370_000,)]


LED_IN = """
id thread category   name             start end
1  0      annotation ProfilerStep#1   100   400
2  0      python     prepare          100   300
3  0      runtime    cudaLaunchKernel 300   302
4  0      runtime    cudaLaunchKernel 310   312
"""
EARLIER = "5  0      runtime    cudaLaunchKernel 50    52\n"
WORK = "id stream kind start end launch\n10 7 kernel 305 350 3\n11 7 kernel 350 390 4\n"
WINDOW = "SELECT start_ns // 1000, window_ns // 1000, first_op_id FROM windows"


def test_host_time_ahead_of_the_first_operation_belongs_to_the_first_step() -> None:
    # host    |- prepare -----------|launch
    # device                          [== a ==][== b ==]
    drawn = Drawn.of(LED_IN, WORK)
    assert drawn.rows(WINDOW) == [(100, 290, None)]
    parts = dict(drawn.rows("SELECT bucket, sum(dur_ns) FROM ledger_rows WHERE kept GROUP BY bucket"))
    # The kernel starts 3 us after its launch: that part is shared by what led to it, in proportion to 200 and 2 us.
    assert sum(parts.values()) == 290_000
    assert parts["compute"] == 85_000
    assert parts["host.python"] == pytest.approx(205_000 * 200 / 202, abs=1_000)
    # Without the preparation the launch comes as much earlier, and no more.
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"host.python"})) == 200_000


def test_a_step_begins_when_the_device_is_done_with_what_was_queued_before() -> None:
    # device  [== queued before ====]   [== a ==][== b ==]
    drawn = Drawn.of(LED_IN + EARLIER, WORK + "12 7 kernel 60 250 5")
    assert drawn.rows(WINDOW) == [(250, 140, None)]


def test_work_from_before_that_leaves_the_device_idle_does_not_delay_the_step() -> None:
    # device  [before]          [before]  [== a ==][== b ==]
    drawn = Drawn.of(LED_IN + EARLIER, WORK + "12 7 kernel 60 90 5\n13 7 kernel 290 300 5")
    assert drawn.rows(WINDOW) == [(100, 290, None)]


def test_a_step_whose_first_operation_runs_at_once_begins_with_it_where_work_was_queued_until_then() -> None:
    drawn = Drawn.of(LED_IN + EARLIER, WORK + "12 7 kernel 60 305 5")
    assert drawn.rows(WINDOW) == [(305, 85, 10)]
