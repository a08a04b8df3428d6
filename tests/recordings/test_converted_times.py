"""Files that a converter rewrote: another unit of time, another unit for viewers, records written twice."""

from __future__ import annotations

from pathlib import Path

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


def test_nanoseconds_for_microseconds_are_named_and_nothing_is_concluded(tmp_path: Path) -> None:
    found = diagnosis_of(in_unit(sample("healthy"), 1_000), tmp_path / "converted")
    assert "cannot be judged" in found["verdict"]["sentence"]
    (named,) = [item for item in found["findings"] if item["rule"] == "tq-damaged-times"]
    assert "nanoseconds for microseconds" in named["message"]
    assert named["fixes"][0]["code"].startswith("jq")


def test_the_unit_that_viewers_show_changes_no_number(tmp_path: Path) -> None:
    document = sample("slow_loader")
    found = diagnosis_of({**document, "displayTimeUnit": "ns"}, tmp_path / "ns")
    expected = diagnosis_of({**document, "displayTimeUnit": "ms"}, tmp_path / "ms")
    assert numbers(found) == numbers(expected)


def test_events_that_are_written_twice_count_once(tmp_path: Path) -> None:
    document = sample("slow_loader")
    twice = {**document, "traceEvents": document["traceEvents"] * 2}
    found, expected = diagnosis_of(twice, tmp_path / "twice"), diagnosis_of(document, tmp_path / "once")
    assert fired(found) == fired(expected)
    assert found["ledgers"][0]["buckets"] == expected["ledgers"][0]["buckets"]
    assert "repeated-record" in {item["defect"] for item in found["defects"]}


def test_the_same_events_saved_again_by_a_viewer_count_once(tmp_path: Path) -> None:
    document = sample("slow_loader")
    bare = sorted(document["traceEvents"], key=lambda event: event.get("ts", 0))
    rewritten.write(document, tmp_path / "run" / "rank0.json.gz")
    rewritten.write({"traceEvents": bare}, tmp_path / "run" / "viewer.json")
    found = diagnosed(tmp_path / "run", tmp_path / "store")
    assert [item["file"] for item in found["left_out"]] == ["viewer.json"]
    assert [trace["trace"] for trace in found["traces"]] == ["rank0.json.gz"]
