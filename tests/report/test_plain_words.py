"""What a report says in words, not in the names that tables and rules use."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

from report_diagnoses import sick, trace, without_gpu

from traceanalyzer.diagnosis import Diagnosis, TraceDefect
from traceanalyzer.report import formats
from traceanalyzer.report.diagnosis_blocks.ranks import finding_place


def report(diagnosis: Diagnosis, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream, verbose=verbose)
    return stream.getvalue()


def test_codes_of_the_ledger_are_shown_on_request_only() -> None:
    code = re.compile(r"\b(?:host|dev|edge)\.[a-z_]+")
    assert not code.search(report(sick()))
    assert code.search(report(sick(), verbose=True))


def test_what_a_file_lost_is_said_in_words() -> None:
    lost = TraceDefect(
        "rank0", "unknown-phase", "loss", 4_587, None, "events of this phase hold no timing; record again"
    )
    text = " ".join(report(sick(defects=(lost,))).split())
    assert "what is shown is not everything: 4,587 times, events of this phase hold no timing" in text
    assert "unknown-phase" not in text


def test_one_loss_is_not_counted() -> None:
    lost = TraceDefect("rank0", "truncated", "loss", 1, 100, "the file ends inside the event list; all else is read")
    assert "everything: the file ends inside the event list" in " ".join(report(sick(defects=(lost,))).split())


def test_a_recording_without_events_is_said_to_be_empty() -> None:
    nothing = without_gpu()
    empty = replace(nothing, traces=tuple(replace(trace, event_count=0) for trace in nothing.traces))
    assert "The recording is empty" in report(empty)
    assert "The recording is empty" not in report(nothing)


def test_a_finding_about_the_only_host_needs_no_place() -> None:
    diagnosis = replace(sick(), ledgers=(), traces=(trace(),))
    place = replace(diagnosis.findings[1], device=None)
    assert finding_place(diagnosis, place) == ""
    assert finding_place(replace(diagnosis, traces=(trace(), trace("b", 1))), place) == "only rank 0, the host"


def test_no_fix_binds_all_ranks_to_one_node() -> None:
    rules = Path(__file__).parents[2] / "rules"
    assert [
        path.name for path in rules.rglob("*.yaml") if re.search(r"(?:cpunodebind|membind)=\d", path.read_text())
    ] == []
