"""A recording that is too small to judge promises nothing in its headline."""

from __future__ import annotations

from dataclasses import replace

from report_diagnoses import healthy, quality_finding, sick

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge


def with_little_work(diagnosis: Diagnosis) -> Diagnosis:
    little = replace(quality_finding(), rule="tq-too-little-work", trace=None)
    return replace(diagnosis, findings=(*diagnosis.findings, little))


def test_headline_of_too_little_work_holds_no_percentage() -> None:
    assert "%" in judge(sick()).sentence
    for diagnosis in (sick(), healthy()):
        verdict = judge(with_little_work(diagnosis))
        assert "%" not in verdict.sentence
        assert "faster" not in verdict.sentence
        assert verdict.sentence.endswith("Warm up, and record the part that repeats.")


def test_headline_names_what_leads_in_this_recording() -> None:
    sentence = judge(with_little_work(sick())).sentence
    assert sentence.startswith("Too little GPU work was recorded to judge the program. In this recording: ")


def test_headline_of_a_run_promises_where_one_trace_of_several_holds_little() -> None:
    run = sick()
    others = replace(run, traces=(*run.traces, replace(run.traces[0], trace="other")))
    little = replace(quality_finding(), rule="tq-too-little-work", trace="other", same_on_traces=())
    assert "%" in judge(replace(others, findings=(*others.findings, little))).sentence
