"""Streams that wait for others: where no record tells which for which, the least is told beside the most."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bound_against_truth import Attributed, AttributedJob
from drawn_timeline import Drawn
from open_bounds import check_many_at_once, check_told, least_most_truth
from workloads.workloads import JOBS

from traceanalyzer.attribution.replay.scan import STREAM_WAITS
from traceanalyzer.attribution.replay.what_if import Change, Faster, what_if
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import open_run
from tracesim import simulate, simulate_job

# The copy of the batch has just ended when the compute stream is told to wait for it: the host is late, and no wait is
# to be seen. A host that came earlier would have to wait for the copy, though no engine is busy for most of the step.
PROGRAM: list[dict[str, Any]] = [
    {"next": {"us": 100}},
    {"h2d": {"mb": 100, "us": 6_000, "pinned": True, "stream": 31, "wait": False}},
    {"event_record": {"stream": 31, "event": "batch"}},
    {"py": 6_300},
    {"stream_wait": {"on": "compute", "event": "batch"}},
    {"repeat": 50, "do": [{"kernel": {"class": "gemm", "us": 80, "py_us": 3}}]},
    {"sync": {"kind": "stream"}},
]
QUESTIONS = (
    Change(("host.python",)),
    Change((), (Faster("compute", 2),)),
    Change(("host.python",), (Faster("compute", 2),)),
    Change(("host.python", "host.launch_api")),
)


@cache
def attributed(**conditions: bool) -> Attributed:
    return Attributed(simulate({"steps": 10, "program": PROGRAM, **conditions}, seed=1))


@pytest.mark.sampled
@pytest.mark.parametrize("change", QUESTIONS, ids=str)
def test_what_is_true_lies_between_the_least_and_the_most(change: Change) -> None:
    least, most, truth = least_most_truth(attributed(), change)
    assert least - 0.01 <= truth <= most + 0.01


def test_a_host_that_comes_earlier_may_have_to_wait_for_the_other_stream() -> None:
    least, most, truth = least_most_truth(attributed(), QUESTIONS[0])
    assert most - least > 0.2
    assert truth == pytest.approx(least, abs=0.01)


@pytest.mark.sampled
@pytest.mark.parametrize("change", QUESTIONS, ids=str)
def test_recorded_waits_leave_nothing_open(change: Change) -> None:
    made = attributed(sync_events=True)
    assert made.bounds.at_worst(STREAM_WAITS) is made.bounds
    least, most, truth = least_most_truth(made, change)
    assert least == most == pytest.approx(truth, abs=0.01)


def test_streams_that_were_never_told_to_wait_leave_nothing_open() -> None:
    made = Attributed(simulate({"steps": 8, "program": [PROGRAM[0], PROGRAM[1], PROGRAM[-2]]}))
    assert made.bounds.at_worst(STREAM_WAITS) is made.bounds


def test_the_page_and_the_json_say_what_is_open() -> None:
    check_told(attributed(), QUESTIONS[0], STREAM_WAITS)


def test_many_questions_at_once_are_answered_as_one_by_one() -> None:
    check_many_at_once(attributed().bounds.at_worst(STREAM_WAITS))


@pytest.mark.check
@pytest.mark.parametrize("recorded", [False, True])
def test_a_finding_says_what_is_sure_of_it_where_waits_were_not_recorded(recorded: bool) -> None:
    found = {
        item.rule: item for item in diagnose(attributed(sync_events=recorded).con, load_rules(tests=False)).findings
    }
    told = found["host-stalls"]
    # Without the pause, the kernels of a step wait for its copy.
    _, most, truth = least_most_truth(attributed(), QUESTIONS[0])
    assert truth == pytest.approx(0.03, abs=0.001)
    if recorded:
        assert told.message.startswith("Once sync-in-step is fixed: ")
        assert (told.saving_share or 1) < 0.1
        assert "sure to be saved" not in told.message
    else:
        assert told.saving_share == pytest.approx(most, abs=0.01)
        assert (
            "Only 3.0 % is sure to be saved: the trace does not say what some streams and calls waited for"
            in told.message
        )


# Kernels 91 and 92 end before the calls, 93 to 95 are launched after them. Nothing is late but for its launch.
DRAWN = """
    id thread category name                start end
    1  0      runtime  cudaLaunchKernel    0     2
    2  0      runtime  cudaLaunchKernel    2     4
    3  0      runtime  cudaLaunchKernel    200   202
    4  0      runtime  cudaLaunchKernel    210   212
    5  0      runtime  cudaLaunchKernel    220   222
    {calls}
"""
DRAWN_OPS = """
    id stream kind   start end launch
    91 7      kernel 6     40  1
    92 20     kernel 8     60  2
    93 7      kernel 206   300 3
    94 20     kernel 216   250 4
    95 30     kernel 226   400 5
"""
ONE_CALL = "11 0 runtime cudaStreamWaitEvent 100 102"
TWO_CALLS = f"{ONE_CALL}\n    12 0 runtime cudaStreamWaitEvent 110 112"
MAY_WAIT = """
    SELECT waiting.op_id, awaited.op_id
    FROM attribution.replay_needs AS needs
    JOIN attribution.replay_events AS waiting USING (trace_id, device, position)
    JOIN attribution.replay_events AS awaited
      ON awaited.trace_id = needs.trace_id
      AND awaited.device = needs.device
      AND awaited.position = needs.before_position
    WHERE NOT sure
    ORDER BY ALL
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("calls", "may_wait"),
    [
        ("", []),
        (ONE_CALL, [(93, 92)]),
        (TWO_CALLS, [(93, 92), (94, 91)]),
        # The call in between is for what is launched next after it, and may be for all that was launched before it.
        (f"{ONE_CALL}\n    12 0 runtime cudaStreamWaitEvent 215 217", [(93, 92), (95, 91), (95, 92)]),
        (ONE_CALL.replace("cuda", "hip"), [(93, 92)]),
        (ONE_CALL.replace("Event", "Event_v3020"), [(93, 92)]),
    ],
)
def test_the_streams_that_are_launched_to_next_may_wait_for_the_others(
    calls: str, may_wait: list[tuple[int, int]]
) -> None:
    assert Drawn.of(DRAWN.format(calls=calls), DRAWN_OPS).rows(MAY_WAIT) == may_wait


def test_where_a_wait_was_recorded_no_other_is_thought_of() -> None:
    drawn = Drawn.of(DRAWN.format(calls=TWO_CALLS), DRAWN_OPS, "call stream wait_on_stream wait_on_call\n11 7 20 2")
    assert drawn.rows(MAY_WAIT) == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("waits", "may_wait"),
    [
        # Nsight Systems tells which stream waits, and not for which: that one alone, whatever is launched in between.
        ("11 30 - -\n12 30 - -", [(95, 91), (95, 92)]),
        ("11 7 - -\n12 7 - -", [(93, 92)]),
        ("11 7 - -\n12 30 - -", [(93, 92), (95, 91), (95, 92)]),
    ],
)
def test_a_stream_that_is_told_to_wait_may_wait_for_any_other(waits: str, may_wait: list[tuple[int, int]]) -> None:
    drawn = Drawn.of(DRAWN.format(calls=TWO_CALLS), DRAWN_OPS, "call stream wait_on_stream wait_on_call\n" + waits)
    assert drawn.rows(MAY_WAIT) == may_wait


# The kernel of stream 7 comes late; what stream 20 does is done when it begins.
CHAIN = """
    id thread category name                start end
    1  0      runtime  cudaMemcpyAsync     0     2
    2  0      runtime  cudaEventRecord     2     4
    3  0      runtime  cudaStreamWaitEvent 4     6
    4  0      runtime  cudaEventRecord     6     8
    5  0      runtime  cudaStreamWaitEvent 8     10
    6  0      runtime  cudaLaunchKernel    200   202
    7  0      runtime  cudaLaunchKernel    202   204
"""
CHAIN_OPS = """
    id stream kind   start end launch
    91 20     h2d    6     100 1
    96 7      kernel 206   300 6
    97 40     kernel 208   300 7
"""
WAITS = "SELECT op_id, pred2_position IS NOT NULL FROM attribution.replay_events WHERE op_id > 95 ORDER BY op_id"
RECORDED = "call stream wait_on_stream wait_on_call\n"


@pytest.mark.check
@pytest.mark.parametrize(
    ("waits", "waiting"),
    [
        ("3 7 20 2", [(96, True), (97, False)]),
        # Stream 40 passes on what it was told to wait for, though it had launched nothing.
        ("3 40 20 2\n5 7 40 4", [(96, True), (97, True)]),
        # What it was told only after the event is no part of it.
        ("5 40 20 2\n3 7 40 2", [(96, False), (97, True)]),
        ("3 20 40 2", [(96, False), (97, False)]),
    ],
)
def test_who_waits_for_a_stream_waits_for_what_that_one_was_told_to_wait_for(
    waits: str, waiting: list[tuple[int, bool]]
) -> None:
    assert Drawn.of(CHAIN, CHAIN_OPS, RECORDED + waits).rows(WAITS) == waiting


@pytest.mark.check
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("py_us", [10, 5_000])
def test_a_stream_that_was_told_to_wait_keeps_the_host_waiting(py_us: int, recorded: bool, tmp_path: Path) -> None:
    # The host waits for the compute stream, that one for a collective: nothing else is queued there.
    program = [
        {"repeat": 40, "do": [{"kernel": {"us": 80, "py_us": 3}}]},
        {"py": py_us},
        {"comm": {"us": 3_000}},
        {"sync": {"kind": "stream"}},
        {"py": 2_000},
    ]
    simulated = simulate({"steps": 8, "program": program, "sync_events": recorded})
    simulated.write_nsys(tmp_path / "run" / "rank0.sqlite")
    with open_run(tmp_path / "run", jobs=1) as run:
        made = Attributed(simulated, run.connection)
        for causes in (("dev.comm_transfer",), ("host.python",), ("host.sync",)):
            least, most, truth = least_most_truth(made, Change(causes))
            assert least - 0.01 <= truth <= most + 0.01
            assert most == pytest.approx(truth, abs=0.01)
        told, truly = made.ledger_shares()
        assert truly["host.sync"] > 0.25
        # Where the next step needs the collective that the host waits for, the time is the collective's.
        told = {**told, "host.sync": told.get("host.sync", 0) + told["dev.comm_transfer"], "dev.comm_transfer": 0}
        assert told == pytest.approx({bucket: truly.get(bucket, 0) for bucket in told}, abs=0.01)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("call", "waits", "surely_for", "maybe_for"),
    [
        # The event may have been there for long: the last op before the call is only the latest that it can be.
        ("cudaEventSynchronize 200 206", "", [], [92]),
        ("cudaEventSynchronize 200 206", "3 - 7 2 event", [91], []),
        ("cudaEventSynchronize 30 206", "", [92], []),
        ("cudaStreamSynchronize 200 206", "", [92], []),
    ],
)
def test_which_event_a_host_found_done_stays_open_where_it_was_not_recorded(
    call: str, waits: str, surely_for: list[int], maybe_for: list[int]
) -> None:
    drawn = Drawn.of(
        f"""
        id thread category name                start end
        1  0      runtime  cudaLaunchKernel    0     2
        2  0      runtime  cudaEventRecord     2     4
        4  0      runtime  cudaLaunchKernel    4     6
        3  0      runtime  {call}
        5  0      runtime  cudaLaunchKernel    300   302
        """,
        "id stream kind start end launch\n91 7 kernel 6 100 1\n92 7 kernel 101 204 4\n93 7 kernel 306 400 5",
        "call stream wait_on_stream wait_on_call kind\n" + waits,
    )
    needs = """
        SELECT awaited.op_id
        FROM attribution.replay_events AS call
        LEFT JOIN attribution.replay_needs AS maybe ON maybe.position = call.position AND NOT maybe.sure
        JOIN attribution.replay_events AS awaited ON awaited.position = {}
        WHERE call.op_id IS NULL
    """
    assert drawn.rows(needs.format("call.pred1_position")) == [(op,) for op in surely_for]
    assert drawn.rows(needs.format("maybe.before_position")) == [(op,) for op in maybe_for]


@pytest.mark.check
def test_what_an_all_gather_waits_for_stays_open_where_it_was_not_recorded() -> None:
    job = JOBS["ranks: gathering ahead"]
    change = Change(("host.memcpy_block",))
    recorded, open_ = (
        what_if(AttributedJob(simulate_job({**job, "sync_events": events})).con, change).run for events in (True, False)
    )
    assert recorded is not None
    assert open_ is not None
    assert recorded.saved_ns is not None
    assert recorded.at_least_ns == recorded.saved_ns == open_.saved_ns
    assert recorded.saved_ns > 0.1 * recorded.window_ns
    assert open_.at_least_ns is not None
    assert open_.at_least_ns < 0.01 * open_.window_ns
    assert open_.open_because == STREAM_WAITS


def test_a_collective_that_was_told_to_wait_for_nothing_waits_for_nothing() -> None:
    slices = """
        id thread category name                start end
        1  0      runtime  cudaLaunchKernel    0     2
        2  0      runtime  cudaEventRecord     2     4
        3  0      runtime  cudaStreamWaitEvent 4     6
        4  0      runtime  cudaLaunchKernel    200   202
    """
    ops = "id stream kind start end launch\n91 7 kernel 6 100 1\n96 28 comm 206 300 4"
    assert Drawn.of(slices, ops).rows(WAITS) == [(96, True)]
    assert Drawn.of(slices, ops, RECORDED + "3 28 40 2").rows(WAITS) == [(96, False)]
