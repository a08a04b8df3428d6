"""Each pause between compute kernels has one reason, on timelines small enough to draw."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from traceanalyzer.attribution.replay.bounds import Bounds

LAUNCHES = """
id thread category name             start end
1  0      runtime  cudaLaunchKernel 0     5
2  0      runtime  cudaLaunchKernel {0}   {1}
"""
KERNELS = """
id stream kind   start end launch
90 7      kernel 10    100 1
91 7      kernel {0}   {1} 2
"""


def test_late_host_is_charged_with_what_it_did_before_the_launch() -> None:
    # host   L.[======= loader =======].L
    # gpu      [ 90 ]...................[ 91 ]
    drawn = Drawn.of(
        """
        id thread category   name                                          start end
        1  0      runtime    cudaLaunchKernel                              0     5
        3  0      annotation enumerate(DataLoader)#_Single.__next__        5     395
        2  0      runtime    cudaLaunchKernel                              395   400
        """,
        KERNELS.format(405, 500),
    )
    loader, launch = drawn.rows("SELECT dur_ns FROM attribution.ledger_rows WHERE bucket <> 'compute' ORDER BY row_id")
    assert [line.split()[1] for line in drawn.ledger()] == ["host.dataloader", "host.launch_api"]
    assert loader[0] + launch[0] == 305_000
    assert abs(loader[0] / launch[0] - 390 / 5) < 0.1


def test_host_time_before_a_wait_for_the_busy_device_is_free() -> None:
    # host   L.[= loader =].[== sync ==]..L     the loader hides behind kernel 90
    # gpu      [============ 90 ======]......[ 91 ]
    drawn = Drawn.of(
        """
        id thread category   name                                   start end
        1  0      runtime    cudaLaunchKernel                       0     5
        3  0      annotation enumerate(DataLoader)#_Single.__next__ 5     60
        4  0      runtime    cudaDeviceSynchronize                  60    104
        2  0      runtime    cudaLaunchKernel                       120   125
        """,
        KERNELS.format(128, 200),
    )
    assert drawn.ledger() == ["100-128 host.sync"]


def test_a_lock_before_the_launch_is_charged() -> None:
    # host   L.[ [=== lock ===] ].L
    # gpu      [ 90 ]................[ 91 ]
    drawn = Drawn.of(
        """
        id thread category name               start end
        1  0      runtime  cudaLaunchKernel   0     5
        3  0      python   step               5     395
        4  0      os       pthread_mutex_lock 10    390
        2  0      runtime  cudaLaunchKernel   395   400
        """,
        KERNELS.format(405, 500),
    )
    blamed = drawn.rows("SELECT cause, blame_name, blame_python FROM attribution.ledger_rows WHERE dur_ns > 100000")
    assert blamed == [("host.lock", "pthread_mutex_lock", "step")]
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"host.lock"})) == pytest.approx(305_000, abs=5_000)


def test_a_thread_that_waits_for_work_has_not_taken_over() -> None:
    # main      L.[======= forward =======]
    # autograd   [= waits for a condition, off the CPU now and then =][op]L
    # gpu        [90]..................................................[ 91 ]
    drawn = Drawn.of(
        """
        id thread category name                start end
        1  0      runtime  cudaLaunchKernel    0     5
        3  0      python   forward             6     290
        6  1      cpu_op   autograd::engine::x -9    -8
        7  1      os       pthread_cond_wait   -7    295
        8  1      os       off-CPU             20    40
        9  1      os       off-CPU             150   280
        10 1      cpu_op   aten::mm            300   395
        2  1      runtime  cudaLaunchKernel    395   400
        """,
        KERNELS.format(405, 500),
    )
    causes = [cause for (cause,) in drawn.rows("SELECT DISTINCT cause FROM attribution.ledger_rows ORDER BY cause")]
    assert "host.python" in causes
    assert "host.lock" not in causes
    assert "host.offcpu" not in causes


def test_loader_after_the_wait_keeps_its_time() -> None:
    drawn = Drawn.of(
        """
        id thread category   name                                   start end
        1  0      runtime    cudaLaunchKernel                       0     5
        4  0      runtime    cudaDeviceSynchronize                  6     104
        3  0      annotation enumerate(DataLoader)#_Single.__next__ 104   195
        2  0      runtime    cudaLaunchKernel                       195   200
        """,
        KERNELS.format(200, 300),
    )
    buckets = dict(drawn.rows("SELECT bucket, sum(dur_ns) FROM ledger_rows GROUP BY ALL"))
    assert buckets["host.dataloader"] > 88_000
    assert buckets["host.sync"] + buckets["host.dataloader"] == 100_000


def test_kernel_issued_in_time_waits_for_the_copy_in_its_stream() -> None:
    drawn = Drawn.of(
        """
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        3  0      runtime  cudaMemcpyAsync  5     10
        2  0      runtime  cudaLaunchKernel 10    15
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      h2d    101   181 3
        91 7      kernel 183   200 2
        """,
    )
    assert drawn.ledger() == ["100-101 dev.dispatch", "101-181 dev.h2d", "181-183 dev.dispatch"]
    assert drawn.rows("SELECT blame_id, confidence FROM ledger_rows WHERE bucket = 'dev.h2d'") == [(92, "resolved")]


TWO_STREAMS = (
    """
    id thread category name                start end
    1  0      runtime  cudaLaunchKernel    0     5
    3  0      runtime  cudaMemcpyAsync     5     10
    4  0      runtime  cudaEventRecord     10    11
    5  0      runtime  cudaStreamWaitEvent 11    12
    2  0      runtime  cudaLaunchKernel    12    15
    """,
    """
    id stream kind   start end launch
    90 7      kernel 10    100 1
    92 20     h2d    90    181 3
    91 7      kernel 183   200 2
    """,
)


def test_copy_that_fits_without_a_recorded_wait_is_coincident() -> None:
    drawn = Drawn.of(*TWO_STREAMS)
    assert drawn.ledger() == ["100-181 dev.h2d", "181-183 dev.dispatch"]
    assert drawn.rows("SELECT confidence FROM ledger_rows WHERE bucket = 'dev.h2d'") == [("coincident",)]


def test_recorded_stream_wait_resolves_the_copy() -> None:
    drawn = Drawn.of(*TWO_STREAMS, "call stream wait_on_stream wait_on_call\n5 7 20 4")
    assert drawn.rows("SELECT confidence FROM ledger_rows WHERE bucket = 'dev.h2d'") == [("resolved",)]


def test_a_wait_while_nothing_computes_is_missed_where_it_lies() -> None:
    # host     |L    python      |C|S===== wait ====|  python  |L|          of the python before the copy most is hidden
    #          0                120 125            234        260
    # stream 7   |==== K ====|                                     |= K =
    #            10         100                                    270
    # stream 20                      |==== h2d ====|
    drawn = Drawn.of(
        """
        id thread category name                  start end
        9  0      python   train.py              0     300
        1  0      runtime  cudaLaunchKernel      0     5
        3  0      runtime  cudaMemcpyAsync       120   125
        4  0      runtime  cudaStreamSynchronize 125   234
        2  0      runtime  cudaLaunchKernel      260   265
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 20     h2d    130   230 3
        91 7      kernel 270   300 2
        """,
    )
    missed = dict.fromkeys(("before", "host.sync", "after"), 0.0)
    for row in drawn.ledger():
        times, bucket = row.split()
        start, end = map(float, times.split("-"))
        part = "before" if end <= 133 else "after" if start >= 234 else bucket
        missed[part] += end - start
        assert part == bucket or bucket.startswith("host.")
    # The call itself would have taken 8 us.
    assert missed == {"before": 33, "host.sync": 101, "after": 36}
    assert drawn.rows("SELECT DISTINCT blame_id FROM ledger_rows WHERE bucket = 'host.sync'") == [(4,)]


def test_two_copies_in_a_row_both_hold_the_kernel() -> None:
    drawn = Drawn.of(
        """
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     2
        3  0      runtime  cudaMemcpyAsync  2     4
        4  0      runtime  cudaMemsetAsync  4     6
        2  0      runtime  cudaLaunchKernel 6     8
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      d2d    100   150 3
        93 7      memset 150   170 4
        91 7      kernel 170   200 2
        """,
    )
    assert drawn.ledger() == ["100-150 dev.d2d", "150-170 dev.memset"]


def test_short_gap_is_dispatch_and_a_long_one_is_unresolved() -> None:
    launches = LAUNCHES.format(5, 10)
    assert Drawn.of(launches, KERNELS.format(109, 200)).ledger() == ["100-109 dev.dispatch"]
    assert Drawn.of(launches, KERNELS.format(130, 200)).ledger() == ["100-130 dev.unresolved"]


@pytest.mark.check
def test_hip_takes_longer_between_two_kernels() -> None:
    launches = LAUNCHES.format(5, 10)
    assert Drawn.of(launches, KERNELS.format(115, 200)).ledger() == ["100-115 dev.unresolved"]
    of_hip = launches.replace("cudaLaunchKernel", "hipLaunchKernel")
    assert Drawn.of(of_hip, KERNELS.format(115, 200)).ledger() == ["100-115 dev.dispatch"]
    assert Drawn.of(of_hip, KERNELS.format(130, 200)).ledger() == ["100-130 dev.unresolved"]


def test_work_queued_before_the_trace_waits_for_what_ended_just_before_it() -> None:
    # stream 7   K 10-100 |                    d2d 185-190| K 190-200
    # stream 20       comm 90 ============ 181 |
    drawn = Drawn.of(
        "id thread category name start end\n2 0 runtime cudaLaunchKernel 5 10",
        """
        id stream kind   start end launch
        90 7      kernel 10    100 -
        92 20     comm   90    181 -
        93 7      d2d    185   190 -
        91 7      kernel 190   200 2
        """,
    )
    assert drawn.ledger() == ["100-181 dev.comm_transfer", "181-185 dev.dispatch", "185-190 dev.d2d"]
    assert drawn.rows("SELECT confidence FROM ledger_rows WHERE bucket = 'dev.comm_transfer'") == [("coincident",)]


def test_latency_is_the_hosts_only_where_the_queue_had_run_dry() -> None:
    # The launch returns at 150 and the kernel starts at 162: 5 us of latency, the rest nobody explains.
    drawn = Drawn.of(LAUNCHES.format(120, 150), KERNELS.format(172, 200))
    assert drawn.ledger()[-1] == "155-172 dev.unresolved"


def test_kernel_without_a_launch_after_linked_ones_is_an_edge() -> None:
    drawn = Drawn.of(LAUNCHES.format(5, 10), KERNELS.format(150, 200).replace(" 2\n", " -\n"))
    assert drawn.ledger() == ["100-150 edge.no_launch"]


def test_long_gap_before_an_op_without_a_launch_is_nobodys() -> None:
    # Stream 7  |k1|        |memset||k2|      k1 and the memset have no launch in the trace, k2 was launched at 5.
    drawn = Drawn.of(
        "id thread category name start end\n1 0 runtime cudaLaunchKernel 0 5",
        "id stream kind start end launch\n90 7 kernel 0 100 -\n91 7 memset 150 160 -\n92 7 kernel 162 200 1",
    )
    assert drawn.ledger() == ["100-150 edge.no_launch", "150-160 dev.memset", "160-162 dev.dispatch"]
    assert drawn.rows("SELECT blame_id FROM ledger_rows WHERE bucket = 'edge.no_launch'") == [(91,)]


def test_kernels_launched_before_the_trace_were_asked_for_in_time() -> None:
    drawn = Drawn.of(
        "id thread category name start end\n2 0 runtime cudaLaunchKernel 5 10",
        """
        id stream kind   start end launch
        90 7      kernel 10    100 -
        92 7      comm   100   140 -
        93 7      kernel 142   150 -
        91 7      kernel 155   200 2
        """,
    )
    assert drawn.ledger() == ["100-140 dev.comm_transfer", "140-142 dev.dispatch", "150-155 dev.dispatch"]


def test_first_kernel_of_a_stream_waits_for_what_was_queued_before_the_trace() -> None:
    #  host     |op L|.. copy call that waits for the same stream ..|
    #  stream 2 |k|
    #  stream 7 |...... work that was launched before the trace ....|k|
    slices = """
        id thread category name               start end
        1  0      cpu_op   aten::add          0     40
        2  0      runtime  cudaLaunchKernel   5     10
        3  0      runtime  cudaLaunchKernel   30    35
        4  0      runtime  cudaMemcpyAsync    50    910
    """
    ops = "id stream kind start end launch\n10 2 kernel 20 25 2\n11 7 kernel 900 905 3"
    drawn = Drawn.of(slices, ops)
    assert drawn.ledger()[-1] == "40-900 edge.queued_before_trace"
    assert drawn.rows("SELECT DISTINCT confidence FROM ledger_rows WHERE bucket = 'edge.queued_before_trace'") == [
        ("unresolved",)
    ]
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"host.op", "host.launch_api"})) == 0


@pytest.mark.parametrize(
    "saw_it_dry",
    [
        "20 0 runtime cudaDeviceSynchronize 0 4",  # the stream was empty
        "20 0 cpu_op aten::mul -900 -800",  # enough was recorded before: the wait is shorter than that
    ],
)
def test_first_kernel_of_a_stream_that_was_empty_has_no_known_reason(saw_it_dry: str) -> None:
    slices = f"""
        id thread category name               start end
        {saw_it_dry}
        2  0      runtime  cudaLaunchKernel   5     10
        3  0      runtime  cudaLaunchKernel   30    35
    """
    drawn = Drawn.of(slices, "id stream kind start end launch\n10 2 kernel 20 25 2\n11 7 kernel 800 805 3")
    assert drawn.ledger()[-1] == "40-800 dev.unresolved"


def test_gaps_inside_one_graph_launch_are_not_the_hosts() -> None:
    drawn = Drawn.of(
        "id thread category name start end\n1 0 runtime cudaGraphLaunch 0 200",
        """
        id stream kind   start end launch
        90 7      kernel 10    20  1
        91 7      kernel 22    30  1
        92 7      kernel 35    40  1
        """,
    )
    assert drawn.ledger() == ["20-22 dev.graph_gap", "30-35 dev.graph_gap"]


def test_time_of_a_backward_pass_is_painted_by_the_autograd_thread() -> None:
    drawn = Drawn.of(
        """
        id thread category name                                            start end
        1  0      runtime  cudaLaunchKernel                                0     5
        3  1      cpu_op   autograd::engine::evaluate_function:~AddBackward0 20    400
        2  1      runtime  cudaLaunchKernel                                395   400
        """,
        KERNELS.format(405, 500),
    )
    buckets = dict(drawn.rows("SELECT bucket, dur_ns FROM ledger_rows WHERE bucket <> 'compute'"))
    assert buckets["host.op"] > 0.9 * 305_000


def test_kernel_of_no_length_still_ends_a_pause() -> None:
    drawn = Drawn.of(
        """
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        3  0      runtime  cudaLaunchKernel 5     10
        2  0      runtime  cudaLaunchKernel 10    15
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      kernel 106   106 3
        91 7      kernel 112   200 2
        """,
    )
    assert drawn.ledger() == ["100-106 dev.dispatch", "106-112 dev.dispatch"]


def test_what_follows_the_last_kernel_is_the_tail() -> None:
    drawn = Drawn.of(LAUNCHES.format(5, 10), KERNELS.format(100, 200).replace("91 7      kernel", "91 7      memset"))
    assert drawn.ledger() == ["100-200 edge.tail"]


def test_copies_behind_the_last_kernel_are_copies_and_no_tail() -> None:
    # stream 7  [ 90 ]...[== 91 d2h ==].........[ memset ]
    # stream 8               [==== 92 h2d ====]
    drawn = Drawn.of(
        LAUNCHES.format(5, 10),
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        91 7      d2h    120   160 2
        92 8      h2d    150   180 -
        93 7      memset 190   195 -
        """,
    )
    assert drawn.ledger() == [
        "100-120 edge.tail",
        "120-160 dev.d2h",
        "160-180 dev.h2d",
        "180-195 edge.tail",
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["h2d", "d2h", "d2d"])
@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "hipStreamSynchronize"])
def test_host_that_waits_while_a_long_copy_runs_waits_for_the_copy(kind: str, call: str) -> None:
    # host   L.C.[== sync ==============].L
    # gpu      [ 90 ][=== 92 copy ===]......[ 91 ]
    drawn = Drawn.of(
        f"""
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        3  0      runtime  cudaMemcpyAsync  6     9
        4  0      runtime  {call}           10    605
        2  0      runtime  cudaLaunchKernel 610   615
        """,
        f"""
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      {kind} 101   601 3
        91 7      kernel 618   700 2
        """,
    )
    assert drawn.ledger() == ["100-101 host.sync", f"101-601 dev.{kind}", "601-618 host.sync"]


def polling(asked: str, call: str) -> list[str]:
    """Return the ledger of a host that asks at some times whether a copy is done, which ends at 601."""
    polls = "\n".join(f"{at} 0 runtime {call} {at} {int(at) + 2}" for at in asked.split())
    drawn = Drawn.of(
        f"""
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        3  0      runtime  cudaMemcpyAsync  6     9
        {polls}
        2  0      runtime  cudaLaunchKernel 610   615
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      h2d    101   601 3
        91 7      kernel 618   700 2
        """,
    )
    return drawn.ledger()


@pytest.mark.sampled
@pytest.mark.parametrize("call", ["cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "hipEventQuery"])
def test_host_that_asks_until_a_copy_is_done_waits_for_the_copy(call: str) -> None:
    # host   L.C q..q..q..q..q..q..q.L
    # gpu      [ 90 ][=== copy ===]....[ 91 ]
    assert "101-601 dev.h2d" in polling("20 120 220 320 420 520 602", call)


@pytest.mark.parametrize("asked", ["20 120", "20 40 60 80", "603 604 605 606 607 608"])
def test_host_that_asks_rarely_or_stops_asking_before_the_copy_is_done_does_not_wait(asked: str) -> None:
    assert "101-601 dev.h2d" not in polling(asked, "cudaEventQuery")


def test_host_that_waits_while_a_short_copy_runs_reads_a_value() -> None:
    drawn = Drawn.of(
        """
        id thread category name                  start end
        1  0      runtime  cudaLaunchKernel      0     5
        3  0      runtime  cudaMemcpyAsync       6     9
        4  0      runtime  cudaStreamSynchronize 10    204
        2  0      runtime  cudaLaunchKernel      210   215
        """,
        """
        id stream kind   start end launch
        90 7      kernel 10    100 1
        92 7      d2h    101   200 3
        91 7      kernel 218   300 2
        """,
    )
    assert drawn.ledger() == ["100-218 host.sync"]


def test_wait_that_returns_just_before_its_kernel_ends_is_for_that_kernel() -> None:
    # host   L.[=== sync ===].L      by the host's clock the wait ends 5 us before the kernel does
    # gpu      [ 90 ==========].[ 91 ]
    drawn = Drawn.of(
        """
        id thread category name                  start end
        3  0      runtime  cudaMemcpy            0     200
        1  0      runtime  cudaLaunchKernel      210   215
        4  0      runtime  cudaDeviceSynchronize 216   995
        2  0      runtime  cudaLaunchKernel      1010  1015
        """,
        """
        id stream kind   start end  launch
        92 7      h2d    10    198  3
        90 7      kernel 220   1000 1
        91 7      kernel 1020  1100 2
        """,
    )
    assert Bounds.load(drawn.con).bound(0, 0, frozenset({"host.memcpy_block", "dev.h2d"})) > 150_000


def test_device_that_only_copies_has_no_compute_to_wait_for() -> None:
    drawn = Drawn.of("", "id stream kind start end launch\n1 7 h2d 0 10 -\n2 7 d2h 20 30 -")
    assert drawn.ledger() == ["0-30 edge.tail"]


def test_two_devices_have_a_ledger_each() -> None:
    drawn = Drawn.of(
        LAUNCHES.format(5, 10),
        """
        id device stream kind   start end launch
        90 0      7      kernel 10    100 1
        91 1      7      kernel 20    80  2
        92 1      7      kernel 85    90  -
        """,
    )
    assert drawn.ledger(0) == []
    assert drawn.ledger(1) == ["80-85 edge.no_launch"]


def test_profilers_overhead_counts_where_the_thread_stood_still() -> None:
    slices = """
    id thread category name             start end
    1  0      runtime  cudaLaunchKernel 0     5
    2  0      runtime  cudaLaunchKernel 395   400
    9  5      overhead Buffer~Flush     {0}   390
    """
    still = Drawn.of(slices.format(10), KERNELS.format(405, 500))
    assert still.ledger()[0].endswith("host.profiler")
    busy = Drawn.of(slices.format(2), KERNELS.format(405, 500))
    assert "host.profiler" not in " ".join(busy.ledger())


def test_run_without_gpu_work_has_empty_tables() -> None:
    drawn = Drawn.of(LAUNCHES.format(5, 10), "")
    assert drawn.rows("FROM time_ledger") == []
    assert drawn.rows("FROM host_cause_bounds") == []
