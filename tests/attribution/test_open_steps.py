"""Ranges that were open when the recording stopped last until then; an open step is cut, the one before it whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nsys_export import KERNEL, RUNTIME, STRINGS, call, kernel, nvtx, write_sqlite

from traceanalyzer.run import open_run

STEP_US = 1_000
Found = list[tuple[int, int, bool, str | None]]


def steps_of(path: Path, store: Path) -> Found:
    """Return the steps of a trace: number, host duration and whether it is kept, in us."""
    with open_run(path, store=store, jobs=1) as run:
        rows = run.connection.sql("SELECT step, host_dur_ns // 1000, kept, drop_reason FROM steps ORDER BY step")
        return rows.fetchall()


def complete(name: str, start: int, dur: int, category: str = "user_annotation", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def launched(at: int, number: int) -> list[dict[str, Any]]:
    """Return a launch at a time in us, and the kernel 10 us later that takes 400 us."""
    work = {"stream": 7, "device": 0, "correlation": number}
    return [
        complete("cudaLaunchKernel", at, 5, "cuda_runtime", correlation=number),
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 10, "dur": 400, "args": work},
    ]


def kineto(tmp_path: Path, closed: int, last: list[dict[str, Any]], *, launches_in_last: bool = True) -> Path:
    """Write steps of 1 ms, two launches in each, and an event that begins the last one."""
    events = []
    for number in range(closed + 1):
        begin = 10 + number * STEP_US
        if number < closed:
            events.append(complete(f"ProfilerStep#{number}", begin, STEP_US - 20))
            events += launched(begin + 10, 2 * number + 1) + launched(begin + 500, 2 * number + 2)
        elif launches_in_last:
            events += launched(begin + 10, 2 * number + 1)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*events, *last]}), encoding="utf-8")
    return path


@pytest.mark.check
@pytest.mark.parametrize("launches_in_last", [True, False])
@pytest.mark.parametrize("args", [{}, {"mark": [1]}])
def test_begin_without_end_is_the_step_in_which_the_recording_stopped(
    tmp_path: Path, args: dict[str, Any], launches_in_last: bool
) -> None:
    begin = {
        "ph": "B",
        "cat": "user_annotation",
        "name": "ProfilerStep#2",
        "pid": 1,
        "tid": 1,
        "ts": 2010,
        "args": args,
    }
    path = kineto(tmp_path, 2, [begin], launches_in_last=launches_in_last)
    found = steps_of(path, tmp_path / "store")
    assert found[:2] == [(0, 980, True, None), (1, 980, True, None)]
    assert found[2] == (2, 420, False, "cut short") if launches_in_last else found[2][2:] == (False, "no GPU work")


@pytest.mark.check
def test_range_that_pytorch_says_is_not_finished_is_cut(tmp_path: Path) -> None:
    path = kineto(tmp_path, 2, [complete("ProfilerStep#2", 2010, 420, finished=False)])
    assert steps_of(path, tmp_path / "store")[2] == (2, 420, False, "cut short")
    (tmp_path / "whole").mkdir()
    path = kineto(tmp_path / "whole", 2, [complete("ProfilerStep#2", 2010, 420, finished=True)])
    assert steps_of(path, tmp_path / "whole_store")[1] == (1, 980, True, None)


@pytest.mark.check
@pytest.mark.parametrize("dur", [None, "lost", 1e16])
def test_step_without_a_duration_ends_where_the_next_begins_or_is_the_last(tmp_path: Path, dur: object) -> None:
    for number, expected in {1: (1, 1000, True, None), 3: (3, 910, False, "cut short")}.items():
        path = kineto(tmp_path, 4, [])
        trace = json.loads(path.read_text(encoding="utf-8"))
        trace["traceEvents"] = [event for event in trace["traceEvents"] if event["ts"] < 10 + 4 * STEP_US]
        for event in trace["traceEvents"]:
            if event["name"] == f"ProfilerStep#{number}":
                event["dur"] = dur
        path.write_text(json.dumps(trace), encoding="utf-8")
        with open_run(path, store=tmp_path / f"store{number}", jobs=1) as run:
            found = run.connection.sql("SELECT defect, defect_count FROM canonical.defects").fetchall()
        assert found == [("unfinished-begin", 1)]
        steps = steps_of(path, tmp_path / f"store{number}")
        assert steps[number] == expected
        assert [step[1] for step in steps if step[0] != number] == [980] * 3


def test_step_whose_end_was_lost_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    events = [e for n in range(3) for e in launched(20 + n * STEP_US, n + 1)]
    marks = [("B", 0, 10), ("B", 1, 1010), ("E", 1, 1990), ("B", 2, 2010), ("E", 2, 2990)]
    events += [
        {"ph": phase, "cat": "user_annotation", "name": f"step {number}", "pid": 1, "tid": 1, "ts": at}
        for phase, number, at in marks
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    assert [step[:2] for step in steps_of(path, tmp_path / "store")] == [(0, 1000), (1, 980), (2, 980)]


@pytest.mark.check
def test_async_begin_without_end_is_open_until_the_recording_ends(tmp_path: Path) -> None:
    begin = {"ph": "b", "cat": "request", "name": "request", "id": 4, "pid": 1, "tid": 1, "ts": 1000}
    path = kineto(tmp_path, 2, [begin])
    with open_run(path, store=tmp_path / "store", jobs=1) as run:
        assert run.connection.sql("SELECT dur_ns FROM async_slices").fetchall() == [(1_430_000,)]
        assert run.connection.sql("SELECT args FROM event_args WHERE is_cut(args)").fetchall() == [('{"open": true}',)]
        found = run.connection.sql("SELECT defect, defect_count FROM canonical.defects").fetchall()
    assert found == [("unfinished-begin", 1)]


@pytest.mark.check
@pytest.mark.parametrize("event_type", [59, 60])
@pytest.mark.parametrize("launches_in_last", [True, False])
def test_open_range_of_nsys_is_the_step_in_which_the_capture_stopped(
    tmp_path: Path, event_type: int, launches_in_last: bool
) -> None:
    us = 1_000
    ranges = [nvtx(n * 1000 * us, (n * 1000 + 980) * us, f"step {n}", eventType=event_type) for n in range(3)]
    ranges.append(nvtx(3000 * us, None, "step 3", eventType=event_type))
    count = 4 if launches_in_last else 3
    calls = [call((n * 1000 + 10) * us, (n * 1000 + 15) * us, n + 1) for n in range(count)]
    kernels = [kernel((n * 1000 + 20) * us, (n * 1000 + 900) * us, n + 1) for n in range(count)]
    tables = {"StringIds": STRINGS, KERNEL: kernels, RUNTIME: calls, "NVTX_EVENTS": ranges}
    path = write_sqlite(tmp_path / "report.sqlite", tables)
    found = steps_of(path, tmp_path / "store")
    assert [step[1:3] for step in found[:3]] == [(980, True)] * 3
    assert found[3] == (3, 900, False, "cut short") if launches_in_last else found[3][2:] == (False, "no GPU work")


def test_range_without_a_duration_holds_nothing_that_follows_it(tmp_path: Path) -> None:
    path = kineto(tmp_path, 4, [])
    trace = json.loads(path.read_text(encoding="utf-8"))
    of_step = next(event for event in trace["traceEvents"] if event["name"] == "ProfilerStep#1")
    block = of_step | {"name": "block 3", "ts": of_step["ts"] + 1}
    del block["dur"]
    trace["traceEvents"].append(block)
    path.write_text(json.dumps(trace), encoding="utf-8")
    with open_run(path, store=tmp_path / "store", jobs=1) as run:
        names = run.connection.sql("SELECT name FROM canonical.host_slices WHERE category = 'annotation'").fetchall()
        found = run.connection.sql("SELECT defect, defect_count FROM canonical.defects").fetchall()
    assert ("block 3",) not in names
    assert found == [("bad-duration", 1)]


@pytest.mark.parametrize(
    ("after_us", "last"),
    [
        (5_020, (False, None, 1_000)),
        (5_900, (False, None, 1_880)),
        (9_000, (True, "end not in the trace", 890)),
    ],
)
def test_a_step_ends_with_its_own_work_where_what_follows_comes_a_step_later(
    tmp_path: Path, after_us: int, last: tuple[bool, str | None, int]
) -> None:
    path = kineto(tmp_path, 5, launched(after_us, 99), launches_in_last=False)
    with open_run(path, store=tmp_path / "store", jobs=1) as run:
        rows = run.connection.sql("SELECT NOT kept, drop_reason, dur_ns // 1000 FROM steps ORDER BY step").fetchall()
    assert rows[1:4] == [(False, None, 1_000)] * 3
    assert rows[4] == last
