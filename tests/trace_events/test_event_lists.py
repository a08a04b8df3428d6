"""PyTorch's list of events as JSON: all of PyTorch before Kineto (1.8.1), and `EventList.export_chrome_trace` since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiers import needed
from trace_event_tables import Tables, read

from traceanalyzer.run import open_run

Event = dict[str, Any]
# Of results without a thread of the host, as kernels are: noTID in torch/csrc/profiler/collection.cpp.
NO_THREAD = 2**64 - 1


def call(name: str, ts: float, dur: float, tid: int = 1, pid: str = "CPU functions") -> Event:
    """Return an event as torch/autograd/profiler.py of PyTorch 1.7.1 writes it."""
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": tid, "pid": pid, "args": {}}


def on_gpu(name: str, number: int, ts: float, dur: float) -> list[Event]:
    """Return what that version writes of an operator's time on a GPU: an arrow, and the time between two events."""
    arrow = {"name": name, "id": number, "cat": "cpu_to_cuda", "args": {}}
    return [
        {**arrow, "ph": "s", "ts": ts, "tid": 1, "pid": "CPU functions"},
        {**arrow, "ph": "f", "ts": ts + 3, "tid": 0, "pid": "CUDA functions"},
        call(name, ts + 3, dur, 0, "CUDA functions"),
    ]


def categories(tables: Tables) -> list[tuple[str, str]]:
    return [(row["name"], row["category"]) for row in tables["host_slices"]]


def lost(tables: Tables) -> dict[str, int]:
    return {row["defect"]: row["defect_count"] for row in tables["defects"]}


def test_calls_of_the_host_are_operators_without_a_category_of_their_own() -> None:
    tables = read(
        json.dumps([call("conv2d", 10, 100), call("cudnn_convolution", 12, 90), call("ProfilerStep#3", 5, 200)])
    )

    assert dict(categories(tables)) == {
        "ProfilerStep#3": "annotation",
        "conv2d": "cpu_op",
        "cudnn_convolution": "cpu_op",
    }
    (trace,) = tables["traces"]
    assert (trace["recorder"], trace["format"], trace["framework"]) == ("kineto", "chrome", "pytorch")
    assert not trace["has_stacks"]
    assert lost(tables) == {}


def test_times_between_two_events_of_a_stream_are_neither_kernels_nor_calls() -> None:
    # An operator and the one inside it: their times on the GPU nest, and would count twice.
    tables = read(
        json.dumps(
            [
                call("conv2d", 10, 100),
                *on_gpu("conv2d", 0, 10, 180),
                call("cudnn_convolution", 12, 90),
                *on_gpu("cudnn_convolution", 1, 12, 170),
            ]
        )
    )

    assert categories(tables) == [("conv2d", "cpu_op"), ("cudnn_convolution", "cpu_op")]
    assert tables["gpu_ops"] == []
    assert lost(tables) == {"unplaced-work": 2}


def test_kernels_without_a_stream_are_no_calls_of_the_host() -> None:
    kernel = call("void relu_kernel<float>(float*)", 15, 4, NO_THREAD)
    frame = call("threading.py(995): _bootstrap", 0, 90, NO_THREAD)
    tables = read(json.dumps([call("aten::relu", 10, 20), kernel, frame]))

    assert dict(categories(tables)) == {"aten::relu": "cpu_op", "threading.py(995): _bootstrap": "python"}
    assert lost(tables) == {"unplaced-work": 1}


@pytest.mark.check
@pytest.mark.parametrize("gpu", [False, True])
def test_a_program_that_used_a_gpu_is_told_from_one_on_the_cpu(tmp_path: Path, gpu: bool) -> None:
    events = [call("conv2d", 10, 100_000), *(on_gpu("conv2d", 0, 10, 150_000) if gpu else ())]
    (tmp_path / "trace.json").write_text(json.dumps(events))

    with open_run(tmp_path / "trace.json", store=tmp_path / "store") as run:
        diagnosis = run.diagnose()

    (finding,) = (finding for finding in diagnosis.findings if finding.rule == "tq-missing-gpu-activity")
    assert finding.severity == ("blocker" if gpu else "note")
    assert ("used a GPU, whose work was not recorded (conv2d)" in finding.message) == gpu


@pytest.mark.check
def test_what_pytorch_writes_now_has_its_operators_and_frames(tmp_path: Path) -> None:
    torch: Any = needed("torch")
    layer, batch = torch.nn.Linear(64, 8), torch.randn(16, 64)
    with torch.autograd.profiler.profile(with_stack=True) as recorded:
        layer(batch).sum().backward()
    recorded.function_events.export_chrome_trace(str(tmp_path / "events.json"))

    tables = read((tmp_path / "events.json").read_text())

    named = dict(categories(tables))
    assert named["aten::addmm"] == "cpu_op"
    assert {category for name, category in named.items() if ".py(" in name or name.startswith("<built-in ")} == {
        "python"
    }
    assert tables["traces"][0]["has_stacks"]
    assert lost(tables) == {}
