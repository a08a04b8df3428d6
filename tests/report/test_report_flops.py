"""MFU and HFU in reports: a line below what the GPU computes, with bounds, or why they are unknown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_diagnoses import healthy, sick, trace
from text_tables import connect

from traceanalyzer.diagnosis import Diagnosis, flops
from traceanalyzer.diagnosis.flops import FlopsUse
from traceanalyzer.report import formats
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS

KNOWN = FlopsUse("rank 0, device 0", (0.25, 0.3), (0.4, 0.45), 0.99)
UNKNOWN = FlopsUse("run", None, None, 0.0, "no products")
SAMPLE = Path(__file__).parents[2] / "sample_traces" / "slow_loader"


def text_of(diagnosis: Diagnosis, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream, verbose=verbose)
    return " ".join(stream.getvalue().split())


def of_torch(diagnosis: Diagnosis, *uses: FlopsUse) -> Diagnosis:
    return replace(diagnosis, traces=(replace(trace(), framework="pytorch"),), flops=uses)


@pytest.mark.parametrize("diagnosis", [sick(), healthy()])
def test_a_report_says_both_below_the_kernels(diagnosis: Diagnosis) -> None:
    text = text_of(of_torch(diagnosis, KNOWN))
    assert "FLOPs utilisation MFU 25.0 to 30.0 %, HFU 40.0 to 45.0 %" in text.partition("top kernels")[2]


def test_a_report_says_why_both_are_unknown() -> None:
    assert "MFU and HFU unknown: no matmul, convolution or attention" in text_of(of_torch(sick(), UNKNOWN))
    peaks = text_of(of_torch(sick(), replace(UNKNOWN, reason="unknown peak")))
    assert "MFU and HFU unknown: the peaks of the device for the types that it computes with are not known" in peaks


def test_a_program_without_a_framework_is_not_asked_for_shapes_of_operators() -> None:
    assert "MFU" not in text_of(replace(sick(), flops=(UNKNOWN,)))


@pytest.mark.parametrize(
    ("framework", "recorder"), [("cuda", "nsys"), ("pytorch", "nsys"), ("cupy", None), ("hip", "rocprof")]
)
def test_shapes_are_asked_for_where_a_profiler_records_them(framework: str, recorder: str | None) -> None:
    assert "MFU and HFU unknown" in text_of(of_torch(sick(), UNKNOWN))
    traces = (replace(trace(), framework=framework, recorder=recorder),)
    for reason in ("no products", "no operators", "shapes left out"):
        unknown = replace(UNKNOWN, reason=reason)
        assert "MFU" not in text_of(replace(sick(), traces=traces, flops=(unknown,)))
    assert "MFU 25.0" in text_of(replace(sick(), traces=traces, flops=(KNOWN,)))


def test_a_run_that_cannot_be_judged_has_no_line_of_what_is_unknown() -> None:
    little = replace(sick().findings[0], rule="tq-too-little-work", kind="quality", trace=None, device=None)
    unknown = of_torch(replace(sick(), findings=(little,)), UNKNOWN)
    assert "Too little GPU work" in text_of(unknown) and "MFU" not in text_of(unknown)
    assert "MFU 25.0" in text_of(replace(unknown, flops=(KNOWN,)))


def test_of_several_devices_all_are_said_together_and_each_on_request() -> None:
    uses = (replace(KNOWN, place="all 2 devices"), KNOWN, replace(KNOWN, place="rank 1, device 0", mfu=(0.1, 0.1)))
    short, long = (text_of(of_torch(sick(), *uses), verbose=verbose) for verbose in (False, True))
    assert "all 2 devices: MFU 25.0 to 30.0 %" in short and "MFU 10.0 %" not in short
    assert "rank 1, device 0 MFU 10.0 %" in long and "HFU counts what is computed again" in long


@pytest.mark.parametrize(
    ("operator", "shapes", "reason"),
    [
        ("aten::mm", None, "shapes left out"),
        (None, None, "no operators"),
        ("aten::relu", "[[8,8]]", "no products"),
    ],
)
def test_shapes_are_asked_for_where_operators_have_none(operator: str | None, shapes: str | None, reason: str) -> None:
    called = {"slice_id": 1, "category": "cpu_op", "name": operator, "start_ns": 0, "dur_ns": 9, "input_shapes": shapes}
    con = connect(
        "FROM flops_utilisation",
        traces=[{"recorder": "kineto"}],
        host_slices=[called] if operator else [],
        gpu_ops=[{"op_id": 3, "kind": "kernel", "name": "k", "start_ns": 0, "dur_ns": 9, "cpu_op_id": 1}],
        windows=[{"device": 0, "start_ns": 0, "end_ns": 9, "window_ns": 9}],
    )
    (use,) = flops.flops_uses_in(con, 2, lambda *_: None)
    assert use.reason == reason
    assert ("record_shapes=True" in use.words) == (reason == "shapes left out")


@pytest.mark.check
def test_a_run_is_diagnosed_with_the_numbers_of_the_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_run(SAMPLE, store=tmp_path) as run:
        stream = io.StringIO()
        formats.write_diagnosis(run.diagnose(settings=NO_SETTINGS), "json", stream)
        (found,) = json.loads(stream.getvalue())["flops"]
        ((least, most),) = run.sql("SELECT mfu_least, mfu_most FROM flops_utilisation").fetchall()
        assert found["mfu"] == [least, most] and 0.1 < least < most < 0.3
        # A large run must not pay for it.
        monkeypatch.setattr(flops, "MOST_EVENTS", 100)
        other = run.diagnose(params={"dataloader-bound.min_share": 0.2}, settings=NO_SETTINGS)
        assert [use.reason for use in other.flops] == ["too many events"]
