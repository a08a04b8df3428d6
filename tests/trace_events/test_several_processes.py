"""JSON of recorders that draw several processes in one file: a trace each, with its own launches and devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from test_dialects import GPU1, ROCPROF1, arrow, drawn, process, rocprof1

from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester

Event = dict[str, Any]


def launches(events: list[Event], folder: Path) -> dict[str, list[tuple[str, int, str | None]]]:
    """Return of each trace of a file the kernels, their devices, and the calls that launched them."""
    file, target = folder / "several.json", folder / "tables"
    file.write_text(json.dumps({"traceEvents": [{}, *events]}))
    target.mkdir()
    TraceEventIngester().ingest(file, target, IngestOptions())
    found = {}
    for trace in sorted(target.iterdir()):
        rows = {
            table: [row for part in sorted(trace.glob(f"{table}*.parquet")) for row in pq.read_table(part).to_pylist()]
            for table in ("gpu_ops", "host_slices", "traces")
        }
        assert [row["event_count"] > 0 for row in rows["traces"]] == [True]
        calls = {row["slice_id"]: row["name"] for row in rows["host_slices"]}
        found[trace.name] = [(op["name"], op["device"], calls.get(op["launch_id"])) for op in rows["gpu_ops"]]
    return found


def test_rocprof_names_the_process_among_the_arguments(tmp_path: Path) -> None:
    events: list[Event] = [*ROCPROF1, process(6, "GPU0")]
    for number, pid in enumerate(("4711", "4812")):
        at = 1_000_000_000 + 2_000 * number
        named = {**GPU1, "dev-id": str(number), "pid": pid}
        events += [
            rocprof1(2, int(pid), f"hipLaunchKernel{number}", at, at + 1_500, pid=pid),
            rocprof1(6 + number, 2, f"kernel{number}", 1_000_050_000, 1_000_060_000, **named),
            # Both processes copy in the one lane of copies.
            rocprof1(1, 2, f"CopyHostToDevice{number}", 1_000_070_000, 1_000_071_000, **named),
            arrow("s", "DataFlow", number, 2, int(pid), at // 1000),
            arrow("t", "DataFlow", number, 6 + number, 2, 1_000_050),
        ]
    assert launches(events, tmp_path) == {
        "pid4711": [("kernel0", 0, "hipLaunchKernel0"), ("CopyHostToDevice0", 0, None)],
        "pid4812": [("kernel1", 1, "hipLaunchKernel1"), ("CopyHostToDevice1", 1, None)],
    }


def rpd2tracing(devices: tuple[str, str]) -> list[Event]:
    events = [process("0", "GPU0"), process("1", "GPU1")]
    for number, device in enumerate(devices):
        pid, start = str(4000 + number), str(1010.5 + 20 * number)
        events += [
            drawn(pid, pid, f"hipLaunchKernel{number}", "1000.100", "5.000", args={"desc": ""}),
            drawn(device, "0", f"kernel{number}", start, "7.250", args={"desc": "KernelExecution"}),
            arrow("s", "api_op", str(number), pid, pid, "1004.100"),
            arrow("f", "api_op", str(number), device, "0", start),
        ]
    return events


def test_arrows_of_rpd2tracing_say_whose_a_device_is(tmp_path: Path) -> None:
    assert launches(rpd2tracing(("1", "0")), tmp_path) == {
        "pid4000": [("kernel0", 1, "hipLaunchKernel0")],
        "pid4001": [("kernel1", 0, "hipLaunchKernel1")],
    }


def test_processes_that_share_a_device_of_rpd2tracing_stay_together_and_linked(tmp_path: Path) -> None:
    assert launches(rpd2tracing(("1", "1")), tmp_path) == {
        "0": [("kernel0", 1, "hipLaunchKernel0"), ("kernel1", 1, "hipLaunchKernel1")]
    }


def test_processes_of_rocprofv3_with_equal_ids_are_linked_inside_each(tmp_path: Path) -> None:
    def parts(pid: int) -> tuple[list[Event], list[Event]]:
        call = {"begin_ns": 1_000_000 + pid, "end_ns": 1_005_000, "corr_id": 7}
        work = {"begin_ns": 1_010_000 + pid, "end_ns": 1_017_500, "corr_id": 7, "stream_ID": 3, "queue": 1, "agent": 0}
        return (
            [drawn(pid, 6, f"hipLaunchKernel{pid}", 1_000.0, 5.0, cat="hip_api", args=call)],
            [drawn(pid, 60, f"kernel{pid}", 1_010.0, 7.5, cat="kernel_dispatch", args=work)],
        )

    # The processes' events lie among each other, in the order of time.
    (call, work), (other_call, other_work) = parts(5), parts(8)
    events = [process(5, "program"), process(8, "program"), *call, *other_call, *work, *other_work]
    assert launches(events, tmp_path) == {
        "pid5": [("kernel5", 0, "hipLaunchKernel5")],
        "pid8": [("kernel8", 0, "hipLaunchKernel8")],
    }
