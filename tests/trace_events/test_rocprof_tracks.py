"""The work of devices in rocprof's `results.json`: events without a category, whose numbers are texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program_findings import diagnosed, lead_of
from trace_event_tables import Tables, read


def process(pid: int, name: str) -> dict[str, Any]:
    return {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": pid}


def event(name: str, pid: int, tid: int, ts: int, dur: int, **args: str) -> dict[str, Any]:
    times = {"BeginNs": str(1000 * ts), "EndNs": str(1000 * (ts + dur))}
    where = {"name": name, "pid": str(pid), "tid": str(tid), "ts": str(ts), "dur": str(dur)}
    return {"ph": "X", **where, "args": {**times, **args, "pid": "99", "tid": "777", "DurationNs": str(1000 * dur)}}


def work(name: str, ts: int, dur: int, device: int = 0, queue: int = 1) -> dict[str, Any]:
    return event(name, 6 + device, queue, ts, dur, **{"dev-id": str(device), "queue-id": str(queue), "Name": name})


def document(*events: dict[str, Any]) -> str:
    named = [process(2, "CPU HIP API"), process(6, "GPU0"), process(7, "GPU1")]
    return json.dumps({"traceEvents": [{}, *named, *events], "otherData": {"gpu": "gfx942"}})


@pytest.fixture(scope="module")
def tables() -> Tables:
    return read(
        document(
            event("hipLaunchKernel", 2, 777, 1000, 8, args="( function_address(0x1))"),
            event("hsa_queue_create", 3, 777, 900, 40),
            work("stencil(double*, int)", 1012, 120),
            work("stencil(double*, int)", 1012, 118, device=1),
            work("CopyHostToDevice", 1140, 60),
        )
    )


def test_work_lies_on_the_device_and_queue_that_its_arguments_name(tables: Tables) -> None:
    assert sorted(
        (op["device"], op["stream"], op["name"], op["kind"], op["copy_kind"]) for op in tables["gpu_ops"]
    ) == [
        (0, 1, "CopyHostToDevice", "memcpy", "HtoD"),
        (0, 1, "stencil(double*, int)", "kernel", None),
        (1, 1, "stencil(double*, int)", "kernel", None),
    ]


def test_calls_are_those_of_the_runtime_and_the_driver(tables: Tables) -> None:
    assert {(row["name"], row["category"]) for row in tables["host_slices"]} == {
        ("hipLaunchKernel", "runtime"),
        ("hsa_queue_create", "driver"),
    }


def test_an_annotation_with_times_is_no_call_and_no_work() -> None:
    tables = read(document(event("solver", 2, 777, 1000, 500), work("stencil(double*, int)", 1012, 120)))
    assert {(row["name"], row["category"]) for row in tables["host_slices"]} == {("solver", "other")}
    assert [op["name"] for op in tables["gpu_ops"]] == ["stencil(double*, int)"]


def test_the_program_is_one_of_hip_and_not_of_pytorch(tmp_path: Path) -> None:
    kernels = [work("stencil(double*, int)", 1000 + 160 * number, 120) for number in range(200)]
    calls = [event("hipLaunchKernel", 2, 777, 990 + 160 * number, 8) for number in range(200)]
    (tmp_path / "results.json").write_text(document(*calls, *kernels))
    diagnosis = diagnosed(tmp_path / "results.json")
    assert [(trace.recorder, trace.framework) for trace in diagnosis.traces] == [("rocprof", "hip")]
    assert lead_of(diagnosis).rule == "dominant-kernel"
