"""No metric looks at more rows for each event of a longer trace: what its plan handles grows with the trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from enlarge import enlarge_events, enlarge_export

from traceanalyzer.metrics import metrics
from traceanalyzer.run import open_run

ROOT = Path(__file__).resolve().parents[2]
FEW = 10_000  # of so many rows, the plans differ


def handled(plan: dict[str, Any]) -> Iterator[int]:
    """Yield how many rows each operator of a plan gave to the next one."""
    yield plan.get("intermediate_rows", 0)
    for child in plan.get("children", plan.get("operator", [])):
        yield from handled(child)


def joined_rows(plan: dict[str, Any]) -> int:
    """Return how many rows the joins of a plan are given, on both sides together."""
    parts = plan.get("children", plan.get("operator", []))
    given = sum(part.get("intermediate_rows", 0) for part in parts) if "JOIN" in str(plan.get("name", "")) else 0
    return given + sum(joined_rows(part) for part in parts)


def plan_of(trace: Path, folder: Path, name: str) -> dict[str, Any]:
    """Return the plan of a metric with how many rows each operator handled."""
    profile = folder / "profile.json"
    with open_run(trace, store=folder / "store") as opened:
        opened.connection.execute("SET threads = 1; PRAGMA enable_profiling = 'json'")
        opened.connection.execute(f"SET profiling_output = '{profile}'")
        opened.connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS FROM {name}")
    found: dict[str, Any] = json.loads(profile.read_text(encoding="utf-8"))
    return found


@pytest.mark.check
def test_calls_and_kernels_are_joined_no_more_often_than_needed(tmp_path: Path) -> None:
    trace = ROOT / "sample_traces" / "slow_loader" / "rank0.json.gz"
    # No graph was captured here, so the calls are joined with nothing.
    assert joined_rows(plan_of(trace, tmp_path, "captured_launches")) < 1_000
    # Kernels are classified once.
    classified = joined_rows(plan_of(trace, tmp_path, "kernel_class"))
    assert joined_rows(plan_of(trace, tmp_path, "kernels_beside_comm")) < 2 * classified


def most_rows(trace: Path, folder: Path, names: Sequence[str] = ()) -> dict[str, int]:
    """Return the most rows that an operator of each metric's plan gives to the next one; by default of all metrics."""
    found = {}
    profile = folder / "profile.json"
    with open_run(trace, store=folder / trace.stem) as opened:
        connection = opened.connection
        connection.execute("SET threads = 1; PRAGMA enable_profiling = 'json'")
        connection.execute(f"SET profiling_output = '{profile}'")
        for name in names or metrics():
            connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS FROM {name}")
            found[name] = max(handled(json.loads(profile.read_text(encoding="utf-8"))))
    return found


def check(short: Path, long: Path, times: int, folder: Path) -> None:
    """Expect that a trace which is so many times as long makes no metric handle more than so many times the rows."""
    before = most_rows(short, folder)
    after = most_rows(long, folder)
    grown = {
        name: (before[name], count)
        for name, count in after.items()
        if count > FEW and count > times**1.1 * max(before[name], FEW / times)
    }
    assert grown == {}


@pytest.mark.check
def test_metrics_of_a_longer_trace_handle_no_more_rows_for_each_event(tmp_path: Path) -> None:
    source = ROOT / "sample_traces" / "slow_loader" / "rank0.json.gz"
    short, long = (enlarge_events(source, tmp_path / f"{times}.json", times) for times in (8, 32))
    check(short, long, 4, tmp_path)


@pytest.mark.check
def test_metrics_of_a_longer_export_handle_no_more_rows_for_each_event(corpus: Path, tmp_path: Path) -> None:
    source = corpus / "nsys" / "h100x2_training_2026.2.sqlite"
    short, long = (enlarge_export(source, tmp_path / f"{times}.sqlite", times) for times in (2, 8))
    check(short, long, 4, tmp_path)


def compared(plan: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield how many pairs of rows each join of a plan compares, where only traces, devices or threads part them."""
    parts = plan.get("children", plan.get("operator", []))
    conditions = plan.get("extra_info", {}).get("Conditions", [])
    conditions = conditions if isinstance(conditions, list) else [conditions]
    equal = {condition.split(" = ")[0] for condition in conditions if " = " in condition}
    kind = str(plan.get("name", plan.get("operator_type", "")))
    if len(parts) == 2 and (
        "NESTED" in kind
        or "BLOCKWISE" in kind
        or ("HASH_JOIN" in kind and len(equal) < len(conditions) and equal <= {"trace_id", "device", "thread_id"})
    ):
        left, right = (part.get("intermediate_rows", 0) for part in parts)
        yield left * right, f"{kind} {conditions}"
    for part in parts:
        yield from compared(part)


@pytest.mark.check
def test_no_metric_compares_each_kernel_or_range_with_each_step(tmp_path: Path) -> None:
    count = 600
    events: list[dict[str, Any]] = []
    for number in range(3 * count):
        at, launch = 20 * number, {"correlation": number + 1}
        call = {"ph": "X", "pid": 1, "tid": 1, "ts": at, "args": launch}
        events += [
            *(
                [call | {"cat": "user_annotation", "name": f"ProfilerStep#{number // 3}", "dur": 59}]
                if number % 3 == 0
                else []
            ),
            call | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 2, "dur": 2},
            call
            | {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 9, "dur": 8}
            | {"args": {**launch, "device": 0, "stream": 7}},
        ]
    trace, profile = tmp_path / "steps.json", tmp_path / "profile.json"
    trace.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    worst = {}
    with open_run(trace, store=tmp_path / "store") as opened:
        connection = opened.connection
        connection.execute("SET threads = 1; PRAGMA enable_profiling = 'json'")
        connection.execute(f"SET profiling_output = '{profile}'")
        for name in metrics():
            connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS FROM {name}")
            found = max(compared(json.loads(profile.read_text(encoding="utf-8"))), default=(0, ""))
            if found[0] >= count * count // 2:
                worst[name] = found
    assert worst == {}


@pytest.mark.check
def test_lines_of_python_take_a_few_rows_for_each_range_however_many_stay_open(tmp_path: Path) -> None:
    count = 300
    recorded = {"ph": "X", "pid": 1, "tid": 1}
    events: list[dict[str, Any]] = []
    for number in range(count):
        at, launch = 20 * number, {"correlation": number + 1}
        events += [
            {**recorded, "cat": "user_annotation", "name": f"step {number}", "ts": at, "dur": 20 * count - at},
            {**recorded, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 5, "dur": 2, "args": launch},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at + 9, "dur": 8}
            | {"args": {**launch, "device": 0, "stream": 7}},
        ]
    trace = tmp_path / "open.json"
    trace.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    assert 2 * count <= most_rows(trace, tmp_path, ["python_lines"])["python_lines"] <= 10 * count
