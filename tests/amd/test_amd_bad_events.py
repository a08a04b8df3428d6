"""Damaged JSON of rocprof 1 and 2, rpd2tracing, Ascend, unitrace and TensorFlow 1: one error or counted defects."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from fuzz.mutating import mutate_bytes
from trace_event_tables import read

from traceanalyzer.errors import TraceAnalyzerError

SEEDS = range(12)
Event = dict[str, Any]
ODD: list[Any] = [None, -1, 2**63, 10**30, 1.5, float("inf"), "x", "", [], {}, True, "é\u202e", "-5", "9" * 25, [[]]]


def process(pid: object, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def drawn(pid: object, tid: object, name: str, ts: object, **more: Any) -> Event:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": "4", **more}


def arrows(category: str, begin: tuple[object, object, object], end: tuple[object, object, object]) -> list[Event]:
    return [
        {"ph": phase, "cat": category, "name": "dep", "id": 1, "pid": pid, "tid": tid, "ts": ts}
        for phase, (pid, tid, ts) in (("s", begin), ("t", end))
    ]


TIMES = {"BeginNs": "1000000100", "EndNs": "1000003900"}
GPU = {"dev-id": "1", "queue-id": "3", "stream-id": "2", "DurationNs": "3800"}
DOCUMENTS: dict[str, list[Event]] = {
    "rocprof 1": [
        process(2, "CPU HIP API"),
        process(7, "GPU1"),
        drawn(2, 9, "hipLaunchKernel", "1000000", args=TIMES),
        drawn(7, 2, "gemm", "1000000", args={**TIMES, **GPU}),
        *arrows("DataFlow", (2, 9, 1_000_001), (7, 2, 1_000_000)),
    ],
    "rocprof 2": [
        *[process(pid, name) for pid, name in enumerate(("CPU", "GPU", "COPY", "HIPBLITKERNELS"), 1)],
        drawn(1, 5, "hipLaunchKernel", "1000000", cat="CPU", args={"cid": 7}),
        drawn(2, 11, "gemm", "1000004", cat="GPU", args={"cid": 7}),
        drawn(3, 1, "CopyHostToDevice", "1000012", cat="COPY", args={"cid": 8}),
    ],
    "rpd2tracing": [
        process("2", "GPU2"),
        drawn("40", "41", "hipLaunchKernel", "1000.100", args={"desc": ""}),
        drawn("2", "0", "gemm", "1010.500", args={"desc": "KernelExecution"}),
        *arrows("api_op", ("40", "41", "1004.100"), ("2", "0", "1010.500")),
    ],
    "ascend": [
        process(10, "Python"),
        process(20, "CANN"),
        process(800, "Ascend Hardware"),
        drawn(10, 10, "aten::mm", "1700000000000000.000", cat="cpu_op"),
        drawn(20, 11, "Node@launch", "1700000000000045.000"),
        drawn(800, 3, "MatMul", "1700000000000060.000", args={"Task Type": "AI_CORE", "Stream Id": 3}),
        *arrows("HostToDevice", (20, 11, "1700000000000046.000"), (800, 3, "1700000000000060.000")),
    ],
    "unitrace": [
        process(4_294_967_295, "DEVICE<host0>[Intel Data Center GPU Max 1550] 0:41:0.0 #0"),
        drawn(70, 70, "zeCommandListAppendLaunchKernel", 1_000.5, cat="cpu_op", args={"id": 5}),
        drawn(4_294_967_295, 1, "gemm[SIMD32 {16; 2; 1} {256; 1; 1}]", 1_010.25, cat="gpu_op", args={"id": 5}),
        *arrows("Flow_H2D_5_0", (70, 70, 1_000.5), (4_294_967_295, 1, 1_010.25)),
    ],
    "tensorflow 1": [
        process(1, "/gpu:7/stream:all Compute"),
        process(2, "/cpu:0 Compute"),
        drawn(1, 0, "MatMul", 1_000, cat="Op", args={"op": "MatMul"}),
        drawn(2, 0, "MatMul", 900, cat="Op", args={"op": "MatMul"}),
    ],
}


def changed(events: list[Event], chosen: random.Random) -> bytes:
    """Return the document with one value replaced, or its bytes changed or cut."""
    text = json.dumps({"traceEvents": events})
    way = chosen.randrange(4)
    if way == 0:
        return text[: chosen.randrange(40, len(text))].encode()
    if way == 1:
        mutated: bytes = mutate_bytes(text.encode(), chosen)
        return mutated
    document = json.loads(text)
    event = chosen.choice(document["traceEvents"])
    holder = event["args"] if way == 3 and event.get("args") else event
    holder[chosen.choice(list(holder))] = chosen.choice(ODD)
    return json.dumps(document).encode()


@pytest.mark.check
@pytest.mark.parametrize("recorder", DOCUMENTS)
def test_damaged_events_are_one_error_or_counted_defects(recorder: str) -> None:
    whole = read(json.dumps({"traceEvents": DOCUMENTS[recorder]}))
    assert len(whole["gpu_ops"]) in (1, 2) and whole.defects == {}
    for seed in SEEDS:
        content = changed(DOCUMENTS[recorder], random.Random(seed))
        try:
            tables = read(content)
        except TraceAnalyzerError:
            continue
        assert all(row["dur_ns"] >= 0 for table in ("gpu_ops", "host_slices") for row in tables[table]), content


@pytest.mark.sampled
@pytest.mark.parametrize(("recorder", "framework"), [("rocprof 2", "hip"), ("unitrace", None)])
def test_kernels_without_calls_are_written_in_the_language_of_their_vendor(
    recorder: str, framework: str | None
) -> None:
    events = [event for event in DOCUMENTS[recorder] if "Launch" not in event["name"]]
    (trace,) = read(json.dumps({"traceEvents": events}))["traces"]
    assert trace["framework"] == framework
