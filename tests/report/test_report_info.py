"""What `info` says of a run's defects: each kind once, with what there is to look for."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.cli import main
from traceanalyzer.diagnosis import flops
from traceanalyzer.report import formats
from traceanalyzer.report.inventory import Inventory, damaged_times
from traceanalyzer.report.screens import info

LACKING = {
    "defect": "missing-table",
    "severity": "note",
    "defect_count": 2,
    "first_offset": None,
    "example": "OSRT_API (nsys profile --trace=cuda,nvtx,osrt)",
    "advice": "record it again with the option named",
}
CUT = {
    "defect": "bad-number",
    "severity": "loss",
    "defect_count": 7,
    "first_offset": 4711,
    "example": "1e999",
    "advice": "look at the event",
}


def defects(*rows: dict[str, Any], verbose: bool = False) -> str:
    """Return the words about defects, of a run with a trace for each name in the rows."""
    traces: list[dict[str, Any]] = [{"trace": name} for name in {row["trace"]: None for row in rows}]
    stream = io.StringIO()
    section = info.defects_section(Inventory(traces, [], [], list(rows), [], [], []), verbose=verbose)
    formats.render([section], "terminal", stream)
    return " ".join(stream.getvalue().split())


def test_a_table_that_all_exports_lack_is_told_once_with_the_option_that_records_it() -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, "trace": "b"})
    assert text.count("note record it again with the option named 2 times in each of 2 traces · missing-table") == 1
    assert text.count("for example OSRT_API (nsys profile --trace=cuda,nvtx,osrt)") == 1


@pytest.mark.parametrize("change", [{"defect_count": 3}, {"example": "NVTX_EVENTS"}])
def test_what_differs_between_traces_is_told_apart(change: dict[str, Any]) -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, **change, "trace": "b"})
    assert "in a" in text
    assert "in b" in text


def test_verbose_names_each_trace() -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, "trace": "b"}, verbose=True)
    assert (text.count("in a"), text.count("in b")) == (1, 1)


def test_a_place_in_the_file_is_told_instead_of_an_example() -> None:
    text = defects({**CUT, "trace": "a"})
    assert "loss look at the event 7 times, first at byte 4,711 · bad-number" in text
    assert "once, first" in defects({**CUT, "defect_count": 1, "trace": "a"})
    assert "1e999" not in text


@pytest.mark.check
@pytest.mark.parametrize("operators", [[], [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5}]])
def test_a_trace_of_gpu_activity_alone_is_told_what_records_operators(
    operators: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 2}
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 9, "dur": 5}
    host = [{**event, "pid": 1, "tid": 1, "args": {"correlation": 7}} for event in (*operators, launch)]
    gpu = {**kernel, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": 7}}
    properties = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    document = {"schemaVersion": 1, "deviceProperties": properties, "traceEvents": [*host, gpu]}
    (tmp_path / "trace.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["info", str(tmp_path / "trace.json"), "-q"]) == 0
    hint = "operators: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
    assert (hint in " ".join(capsys.readouterr().out.split())) == (not operators)


@pytest.mark.check
@pytest.mark.parametrize(
    ("sample", "is_told"), [("slow_loader", True), ("torch_cpu_slow_loader", False)], ids=["NVIDIA", "no GPU"]
)
def test_only_who_has_gpus_of_nvidia_is_told_how_to_record_synchronisations(
    sample: str, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", f"sample_traces/{sample}", "-q", "--store", str(tmp_path)]) == 0
    assert ("enable_cuda_sync_events" in capsys.readouterr().out) == is_told


def test_times_that_cannot_be_true_limit_trust() -> None:
    shifted: dict[str, Any] = {"defect": "clock-shifted", "example": "device 0: 172,800 s ahead of the host"}
    rows: list[dict[str, Any]] = [
        {**shifted, "trace": "a"},
        {"defect": "overrun-duration", "trace": "b"},
        {**LACKING, "trace": "b"},
    ]
    alone: list[dict[str, Any]] = [{"trace": "a"}]
    assert damaged_times(alone, rows[:1]) == [
        "the clocks of device and host differ, and times of the device were moved "
        "(device 0: 172,800 s ahead of the host)"
    ]
    assert [text.partition(":")[0] for text in damaged_times([*alone, {"trace": "b"}], rows)] == ["a", "b"]


@pytest.mark.check
def test_what_is_left_out_of_a_large_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flops, "MOST_EVENTS", 0)
    assert main(["info", "sample_traces/slow_loader", "-q", "--store", str(tmp_path)]) == 0
    assert "MFU and HFU unknown: not computed for so large a run" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("host", "counted"), [("node0", "2 of 4"), (None, "2 of 8")], ids=["one machine", "machines without names"]
)
def test_gpus_that_each_process_of_a_machine_lists_count_once(host: str | None, counted: str) -> None:
    """Each of two processes uses one of four GPUs, and its device numbers do not say which."""
    traces = [{"trace": name, "host": host} for name in ("a", "b")]
    device = {"name": "GPU", "gpu": None, "process_count": 1, "compute_major": 9, "compute_minor": 0}
    size: dict[str, Any] = {"sm_count": 132, "memory_bytes": None}
    devices = [
        {**device, **size, "trace": name, "rank_id": rank, "device": number, "gpu_op_count": int(number == rank)}
        for rank, name in enumerate(("a", "b"))
        for number in range(4)
    ]
    (section,) = info.device_sections(Inventory(traces, devices, [], [], [], [], []), verbose=False)
    stream = io.StringIO()
    formats.render([section], "terminal", stream)
    assert f"  {counted}  " in stream.getvalue()
