"""JSON of PaddlePaddle's profiler, as its chrometracing_logger.cc writes it (schema 1.0.1)."""

from __future__ import annotations

import json
from typing import Any

from trace_event_tables import Tables, read

Event = dict[str, Any]


def lasting(name: str, dur_us: float) -> str:
    return f"{name}[{dur_us / 1000:.3f} ms]" if dur_us > 1000 else f"{name}[{dur_us:.3f} us]"


def call(name: str, category: str, ts: int, dur: float, lane: str = "C++", number: int | None = None) -> Event:
    said = {"start_time": "1.000 us", "end_time": "2.000 us"} | ({} if number is None else {"correlation id": number})
    drawn = {"ph": "X", "name": lasting(name, dur), "pid": 42, "tid": f"43({lane})", "ts": ts, "dur": dur}
    return {**drawn, "cat": category, "cname": "thread_state_runnable", "args": said}


def work(name: str, category: str, ts: int, dur: float, number: int, **args: Any) -> Event:
    said = {"stream": 7, "correlation id": number, **args}
    return {
        "ph": "X",
        "name": lasting(name, dur),
        "pid": 1,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "cat": category,
        "args": said,
    }


def named(pid: int, tid: object, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": tid, "args": {"name": name}}


def tables_of(*events: Event) -> Tables:
    names = [named(42, "43(Python)", "Process 42 (CPU)"), named(1, 7, "Deivce 1 (GPU)")]  # as Paddle spells it
    head = {"schemaVersion": "1.0.1", "displayTimeUnit": "ms", "span_indx": "0"}
    devices = [{"id": 1, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0, "smCount": 108}]
    return read(
        json.dumps({**head, "deviceProperties": devices, "traceEvents": [*events, *names, {}], "ExtraInfo": {}})
    )


def test_work_is_linked_to_its_call_and_named_without_its_duration() -> None:
    tables = tables_of(
        call("ProfileStep#3", "ProfileStep", 0, 2000.5, "Python"),
        call("DataLoader", "Dataloader", 10, 1200.25, "Python"),
        call("conv2d", "Operator", 1300, 50.5),
        call("cudaLaunchKernel", "CudaRuntime", 1310, 6.5, number=5),
        work(
            "ampere_sgemm_128x64_nn", "Kernel", 1330, 80.125, 5, device=1, context=1, grid=[9, 1, 1], block=[256, 1, 1]
        ),
        call("cudaMemcpyAsync", "CudaRuntime", 1400, 20.0, number=6),
        work("MEMCPY_DtoH", "Memcpy", 1420, 12.5, 6, bytes=4096),
    )

    slices = {row["slice_id"]: (row["name"], row["category"], row["thread_id"]) for row in tables["host_slices"]}
    assert sorted(slices.values()) == [
        ("DataLoader", "annotation", 0),
        ("ProfilerStep#3", "annotation", 0),
        ("conv2d", "cpu_op", 0),
        ("cudaLaunchKernel", "runtime", 0),
        ("cudaMemcpyAsync", "runtime", 0),
    ]
    works = [
        (op["kind"], op["name"], op["device"], op["dur_ns"], op["copy_kind"], slices[op["launch_id"]][0])
        for op in tables["gpu_ops"]
    ]
    assert works == [
        ("kernel", "ampere_sgemm_128x64_nn", 1, 80_125, None, "cudaLaunchKernel"),
        ("memcpy", "MEMCPY_DtoH", 1, 12_500, "DtoH", "cudaMemcpyAsync"),
    ]
    assert tables["defects"] == []


def test_numbered_processes_of_other_tools_are_not_of_paddle() -> None:
    tables = read(
        json.dumps({"traceEvents": [call("work", "Operator", 0, 50.5), named(42, 43, "Process 42 (python)")]})
    )

    assert tables["traces"][0]["recorder"] == "chrome"


def test_it_is_no_trace_of_pytorch() -> None:
    tables = tables_of(call("conv2d", "Operator", 0, 50.5))

    (trace,) = tables["traces"]
    assert (trace["recorder"], trace["framework"], trace["format"]) == ("paddle", "paddle", "chrome")
    assert trace["producer"] is None
