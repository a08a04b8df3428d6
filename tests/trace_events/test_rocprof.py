"""The calls, ranges and device work that rocprof 1 and 2 write as Chrome JSON: events without a category."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_event_tables import Tables, read

from traceanalyzer.diagnosis.verdict import leading_finding
from traceanalyzer.run import open_run

PROCESS, THREAD = "4711", "4712"


def process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}, "sort_index": pid}


def event(section: int, lane: int, name: str, start_ns: int, end_ns: int, **args: str) -> dict[str, Any]:
    """Return an event of one of its tables: whole microseconds, and nanoseconds among the arguments, all as texts."""
    times = {"BeginNs": str(start_ns), "EndNs": str(end_ns)}
    args = {**times, "pid": PROCESS, "tid": THREAD, "Name": name, **args, "DurationNs": str(end_ns - start_ns)}
    shown = {"ts": str(start_ns // 1000), "dur": str((end_ns - start_ns) // 1000)}
    return {"ph": "X", "name": name, "pid": section, "tid": lane, **shown, "args": args}


def call(name: str, start_ns: int, end_ns: int, number: int) -> dict[str, Any]:
    api = {"args": "( stream(1))", "Index": str(number), "Data": ""}
    return event(2 if name.startswith("hip") else 3, int(THREAD), name, start_ns, end_ns, **api)


def work(section: int, name: str, start_ns: int, end_ns: int, number: int, **args: str) -> dict[str, Any]:
    op = {"dev-id": "1", "queue-id": "3", "stream-id": "2", "roctx-range": "", "Index": str(number), "Data": "", **args}
    return event(section, 2, name, start_ns, end_ns, **op)


def document(*events: dict[str, Any]) -> str:
    named = [process(0, "Markers and Ranges"), process(2, "CPU HIP API"), process(1, "COPY"), process(7, "GPU1")]
    flows = [
        {"ts": 1_201_000_010, "ph": "s", "cat": "DataFlow", "id": 0, "pid": 2, "tid": int(THREAD), "name": "dep"},
        {"ts": 1_201_000_015, "ph": "t", "cat": "DataFlow", "id": 0, "pid": 7, "tid": 2, "name": "dep"},
    ]
    return json.dumps({"traceEvents": [{}, *named, *events, *flows], "otherData": {}})


BASE = 1_201_000_000_000


@pytest.fixture(scope="module")
def tables() -> Tables:
    return read(
        document(
            event(0, int(THREAD), "solve", BASE + 5_100, BASE + 60_900, Index="1"),
            call("hipLaunchKernel", BASE + 10_250, BASE + 14_999, 5),
            call("hsa_signal_store", BASE + 12_000, BASE + 12_300, 6),
            call("hipMemcpyAsync", BASE + 20_001, BASE + 26_000, 6),
            work(7, "stencil(double*, int)", BASE + 15_123, BASE + 18_456, 5),
            work(1, "CopyDeviceToHost", BASE + 27_000, BASE + 30_500, 6),
            work(1, "FillBuffer", BASE + 31_000, BASE + 31_700, 7),
            work(519, "<barrier packet>", BASE + 40_000, BASE + 41_000, 8),
            event(1, int(THREAD), "async-copy", BASE + 27_001, BASE + 30_400, Index="9", Data=""),
        )
    )


def test_work_has_its_device_stream_and_nanoseconds(tables: Tables) -> None:
    told = ("device", "stream", "kind", "name", "start_ns", "dur_ns", "copy_kind")
    assert [tuple(op[key] for key in told) for op in tables["gpu_ops"]] == [
        (1, 2, "kernel", "stencil(double*, int)", BASE + 15_123, 3_333, None),
        (1, 2, "memcpy", "CopyDeviceToHost", BASE + 27_000, 3_500, "DtoH"),
        (1, 2, "memset", "FillBuffer", BASE + 31_000, 700, None),
    ]
    assert tables.defects == {}


def test_calls_of_hip_launch_the_work_of_their_number(tables: Tables) -> None:
    calls = {row["slice_id"]: row for row in tables["host_slices"]}
    launches = {op["name"]: calls[op["launch_id"]]["name"] for op in tables["gpu_ops"] if op["launch_id"] is not None}
    assert launches == {"stencil(double*, int)": "hipLaunchKernel", "CopyDeviceToHost": "hipMemcpyAsync"}
    assert {row["name"]: (row["category"], row["start_ns"], row["dur_ns"]) for row in calls.values()} == {
        "solve": ("annotation", BASE + 5_100, 55_800),
        "hipLaunchKernel": ("runtime", BASE + 10_250, 4_749),
        "hsa_signal_store": ("driver", BASE + 12_000, 300),
        "hipMemcpyAsync": ("runtime", BASE + 20_001, 5_999),
        "<barrier packet>": ("other", BASE + 40_000, 1_000),
        "async-copy": ("other", BASE + 27_001, 3_399),
    }


def test_ranges_of_roctx_lie_around_the_calls_of_their_thread(tables: Tables) -> None:
    threads = {row["name"]: row["thread_id"] for row in tables["host_slices"]}
    assert threads["solve"] == threads["hipLaunchKernel"] == threads["hipMemcpyAsync"]


def test_the_trace_is_one_of_rocprof_on_an_amd_device(tables: Tables) -> None:
    (trace,) = tables["traces"]
    assert (trace["recorder"], trace["framework"], trace["vendor"]) == ("rocprof", "hip", "amd")


def test_kernels_of_hsa_name_their_device_otherwise() -> None:
    kernel = event(6, 1, "axpy.kd", BASE, BASE + 5_500, **{"gpu-id": "2", "queue-id": "0", "Index": "0"})
    (op,) = read(document(kernel))["gpu_ops"]
    assert (op["device"], op["stream"], op["dur_ns"], op["correlation"]) == (2, 0, 5_500, None)


def test_times_that_begin_anew_stay_those_that_are_shown() -> None:
    kernel = work(7, "late", BASE + 9_123, BASE + 12_456, 1)
    (op,) = read(document({**kernel, "ts": "9"}))["gpu_ops"]
    assert (op["start_ns"], op["dur_ns"]) == (9_000, 3_333)


@pytest.mark.check
@pytest.mark.parametrize("key", ["dev-id", "stream-id", "Index"])
def test_numbers_of_work_that_are_none_are_counted(key: str) -> None:
    tables = read(document(work(7, "odd", BASE, BASE + 2_000, 1, **{key: "odd one"})))
    assert sum(tables.defects.values()) >= 1
    assert [op["name"] for op in tables["gpu_ops"]] == ["odd"]


@pytest.mark.parametrize("key", ["BeginNs", "EndNs"])
def test_what_has_no_times_in_nanoseconds_is_a_plain_slice(key: str) -> None:
    odd = work(7, "odd", BASE, BASE + 2_000, 1)
    tables = read(document({**odd, "args": {**odd["args"], key: "odd one"}}))
    assert [row["category"] for row in tables["host_slices"] if row["name"] == "odd"] == ["other"]
    assert tables["gpu_ops"] == []


@pytest.mark.check
def test_a_program_of_hip_is_told_the_names_of_hip(tmp_path: Path) -> None:
    """A loop of five short kernels reads a value after each round."""
    events, now, number = [], BASE, 0
    for _ in range(100):
        for _ in range(5):
            number += 1
            events.append(call("hipLaunchKernel", now, now + 5_400, number))
            events.append(work(7, "stencil(double*, int)", now + 9_400, now + 12_600, number))
            now += 7_800
        number += 1
        events.append(call("hipMemcpy", now, now + 42_000, number))
        events.append(work(1, "CopyDeviceToHost", now + 30_000, now + 34_500, number))
        now += 47_000
    trace = tmp_path / "results.json"
    trace.write_text(document(*events))
    with open_run(trace, store=tmp_path / "store", jobs=1) as run:
        lead = leading_finding(run.diagnose())
    assert lead is not None and lead.rule == "sync-in-step"
    assert "hipMemcpy" in repr(lead.evidence)
    assert "hipStreamWaitEvent" in (lead.fixes[0].code or "") and "cuda" not in (lead.fixes[0].code or "")
