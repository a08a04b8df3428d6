"""Streams that wait for others: where no record tells which for which, the least is told beside the most."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from bound_against_truth import Attributed
from drawn_timeline import Drawn
from open_bounds import check_many_at_once, check_told, least_most_truth

from traceanalyzer.attribution.doubts import STREAM_WAITS
from traceanalyzer.attribution.what_if import Change, Faster
from traceanalyzer.rules import diagnose, load_rules
from traceanalyzer.simulator import simulate

# The copy of the batch has just ended when the compute stream is told to wait for it: the host is late, and no wait is
# to be seen. A host that came earlier would have to wait for the copy.
PROGRAM: list[dict[str, Any]] = [
    {"next": {"us": 100}},
    {"h2d": {"mb": 100, "us": 6_000, "pinned": True, "stream": 31, "wait": False}},
    {"event_record": {"stream": 31, "event": "batch"}},
    {"py": 6_300},
    {"stream_wait": {"on": "compute", "event": "batch"}},
    {"repeat": 50, "do": [{"kernel": {"class": "gemm", "us": 80, "py_us": 3}}]},
]
QUESTIONS = (
    Change(("host.python",)),
    Change((), (Faster("compute", 2),)),
    Change(("host.python",), (Faster("compute", 2),)),
    Change(("host.python", "host.op", "host.launch_api")),
)


@cache
def attributed(**conditions: bool) -> Attributed:
    return Attributed(simulate({"steps": 10, "program": PROGRAM, **conditions}, seed=1))


@pytest.mark.parametrize("change", QUESTIONS, ids=str)
def test_what_is_true_lies_between_the_least_and_the_most(change: Change) -> None:
    least, most, truth = least_most_truth(attributed(), change)
    assert least - 0.01 <= truth <= most + 0.01


def test_a_host_that_comes_earlier_may_have_to_wait_for_the_other_stream() -> None:
    least, most, truth = least_most_truth(attributed(), QUESTIONS[0])
    assert most - least > 0.2
    assert truth == pytest.approx(least, abs=0.01)


@pytest.mark.parametrize("change", QUESTIONS, ids=str)
def test_recorded_waits_leave_nothing_open(change: Change) -> None:
    made = attributed(sync_events=True)
    assert made.bounds.against(STREAM_WAITS) is made.bounds
    least, most, truth = least_most_truth(made, change)
    assert least == most == pytest.approx(truth, abs=0.01)


def test_streams_that_were_never_told_to_wait_leave_nothing_open() -> None:
    made = Attributed(simulate({"steps": 8, "program": [PROGRAM[0], PROGRAM[1], PROGRAM[-1]]}))
    assert made.bounds.against(STREAM_WAITS) is made.bounds


def test_the_page_and_the_json_say_what_is_open() -> None:
    check_told(attributed(), QUESTIONS[0], STREAM_WAITS)


def test_many_questions_at_once_are_answered_as_one_by_one() -> None:
    check_many_at_once(attributed().bounds.against(STREAM_WAITS))


@pytest.mark.parametrize("recorded", [False, True])
def test_a_finding_says_what_is_sure_of_it_where_waits_were_not_recorded(recorded: bool) -> None:
    found = {
        item.rule: item for item in diagnose(attributed(sync_events=recorded).con, load_rules(tests=False)).findings
    }
    told = found["engine-host-gap"]
    if recorded:
        assert told.saving_share == pytest.approx(0.125, abs=0.01)
        assert told.confidence == "high"
        assert "sure to be saved" not in told.message
    else:
        assert told.saving_share == pytest.approx(0.41, abs=0.01)
        assert told.confidence == "medium"
        assert "Only 12.5 % is sure to be saved: some streams were told to wait for others" in told.message


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
    FROM attribution.lead_needs AS needs
    JOIN attribution.lead_events AS waiting USING (trace_id, device, position)
    JOIN attribution.lead_events AS awaited
      ON awaited.trace_id = needs.trace_id
      AND awaited.device = needs.device
      AND awaited.position = needs.before_position
    WHERE NOT sure
    ORDER BY ALL
"""


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
