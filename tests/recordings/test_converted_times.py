"""Files that a converter rewrote: another unit of time, another unit for viewers, records written twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import rewritten_trace as rewritten
from rewritten_trace import Document
from test_properties import diagnosed, diagnosis_of, fired, numbers, sample


def in_unit(document: Document, factor: float) -> Document:
    """Return a trace whose times and durations are written in another unit."""
    scaled = [
        {**event, **{key: event[key] * factor for key in ("ts", "dur") if key in event}}
        for event in document["traceEvents"]
    ]
    return {**document, "traceEvents": scaled}


@pytest.mark.check
def test_nanoseconds_for_microseconds_are_named_and_nothing_is_concluded(tmp_path: Path) -> None:
    found = diagnosis_of(in_unit(sample("healthy"), 1_000), tmp_path / "converted")
    assert "cannot be judged" in found["verdict"]["sentence"]
    (named,) = [item for item in found["findings"] if item["rule"] == "tq-damaged-times"]
    assert "nanoseconds for microseconds" in named["message"]
    assert named["fixes"][0]["code"].startswith("jq")


def without_base(document: Document) -> Document:
    """Return a trace that does not say from when its times count."""
    return {key: value for key, value in document.items() if key != "baseTimeNanoseconds"}


def from_zero(document: Document) -> Document:
    """Return a trace whose times count from its first event."""
    first = min(event["ts"] for event in document["traceEvents"] if event["ph"] == "X")
    moved = [{**event, "ts": event["ts"] - first} if "ts" in event else event for event in document["traceEvents"]]
    return {**document, "traceEvents": moved}


def of_gpu_alone(document: Document) -> Document:
    """Return a trace of a profiler that recorded calls and work of the GPU, and no operators."""
    kinds = {"cpu_op", "python_function", "user_annotation", "gpu_user_annotation"}
    return {**document, "traceEvents": [event for event in document["traceEvents"] if event.get("cat") not in kinds]}


@pytest.mark.check
@pytest.mark.parametrize("name", ["healthy", "launch_bound", "slow_loader"])
@pytest.mark.parametrize("change", [without_base, from_zero, of_gpu_alone])
@pytest.mark.parametrize(("factor", "unit"), [(1_000, "nanoseconds"), (0.001, "milliseconds"), (1e-6, "seconds")])
def test_another_unit_of_time_is_named_by_what_no_program_shows(
    name: str, change: Callable[[Document], Document], factor: float, unit: str, tmp_path: Path
) -> None:
    document = change(without_base(sample(name)))
    found = diagnosis_of(in_unit(document, factor), tmp_path / "converted")
    (named,) = [item for item in found["findings"] if item["rule"] == "tq-damaged-times"]
    assert (named["severity"], "cannot be judged" in found["verdict"]["sentence"]) == ("blocker", True)
    assert f"as where a converter wrote {unit} for microseconds" in named["message"]
    plain = diagnosis_of(document, tmp_path / "plain")
    assert "tq-damaged-times" not in {item["rule"] for item in plain["findings"]}


@pytest.mark.check
def test_nanoseconds_since_the_epoch_are_not_called_a_trace_without_work(tmp_path: Path) -> None:
    document = without_base(from_zero(sample("slow_loader")))
    since = [{**event, "ts": 1.767e15 + event["ts"]} if "ts" in event else event for event in document["traceEvents"]]
    found = diagnosis_of(in_unit({**document, "traceEvents": since}, 1_000), tmp_path / "converted")
    assert found["verdict"]["sentence"] == "No event of the recording could be read."
    named, unread = [item for item in found["findings"] if item["severity"] == "blocker"]
    assert "times are nanoseconds since 1970, where the format counts microseconds" in named["message"]
    assert "records could not be read, and none could" in unread["message"]
    assert " at 1767" in unread["message"]


@pytest.mark.check
def test_dates_for_times_are_called_what_they_are(tmp_path: Path) -> None:
    document = sample("slow_loader")
    dated = [{**event, "ts": f"2026-12-01T10:00:00.{event['ts'] % 1e6:06.0f}"} for event in document["traceEvents"]]
    found = diagnosis_of({**document, "traceEvents": dated}, tmp_path / "dated")
    (blocker,) = [item for item in found["findings"] if item["severity"] == "blocker"]
    (fix,) = blocker["fixes"]
    assert "which are numbers of microseconds" in fix["text"]


@pytest.mark.check
def test_a_table_that_a_spreadsheet_rounded_is_not_called_empty(tmp_path: Path) -> None:
    header = (
        "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
    )
    names = ("Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,", header)
    rows = (
        "\n".join(f"HIP_RUNTIME_API,hipLaunchKernel,7,7,{at},{90754787703777 + 9000 * at}," for at in range(40)),
        "\n".join(f"KERNEL_DISPATCH,Agent 1,1,1,7,{at},1,gemm,{at},{90754787706777 + 9000 * at}," for at in range(40)),
    )
    for name, first, table in zip(("hip_api", "kernel"), names, rows, strict=True):
        whole = re.sub(r"(\d{14}),", lambda found: f"{found[1]},{int(found[1]) + 3000}", table)
        for folder, text in (("whole", whole), ("rounded", re.sub(r"\d{14}", lambda at: f"{int(at[0]):.5E}", whole))):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"run_{name}_trace.csv").write_text(f"{first}End_Timestamp\n{text}\n")
    assert diagnosed(tmp_path / "whole", tmp_path / "store_whole")["traces"][0]["gpu_op_count"] == 40
    found = diagnosed(tmp_path / "rounded", tmp_path / "store")
    assert found["verdict"]["sentence"] == "No event of the recording could be read."
    (blocker,) = [item for item in found["findings"] if item["severity"] == "blocker"]
    assert "80 records could not be read" in blocker["message"]
    assert "as the profiler wrote it" in blocker["fixes"][0]["text"]


@pytest.mark.check
def test_the_unit_that_viewers_show_changes_no_number(tmp_path: Path) -> None:
    document = sample("slow_loader")
    found = diagnosis_of({**document, "displayTimeUnit": "ns"}, tmp_path / "ns")
    expected = diagnosis_of({**document, "displayTimeUnit": "ms"}, tmp_path / "ms")
    assert numbers(found) == numbers(expected)


@pytest.mark.check
def test_events_that_are_written_twice_count_once(tmp_path: Path) -> None:
    document = sample("slow_loader")
    twice = {**document, "traceEvents": document["traceEvents"] * 2}
    found, expected = diagnosis_of(twice, tmp_path / "twice"), diagnosis_of(document, tmp_path / "once")
    assert fired(found) == fired(expected)
    assert found["ledgers"][0]["buckets"] == expected["ledgers"][0]["buckets"]
    assert "repeated-record" in {item["defect"] for item in found["defects"]}


@pytest.mark.check
def test_the_same_events_saved_again_by_a_viewer_count_once(tmp_path: Path) -> None:
    document = sample("slow_loader")
    bare = sorted(document["traceEvents"], key=lambda event: event.get("ts", 0))
    rewritten.write(document, tmp_path / "run" / "rank0.json.gz")
    rewritten.write({"traceEvents": bare}, tmp_path / "run" / "viewer.json")
    found = diagnosed(tmp_path / "run", tmp_path / "store")
    assert [item["file"] for item in found["left_out"]] == ["viewer.json"]
    assert [trace["trace"] for trace in found["traces"]] == ["rank0.json.gz"]
