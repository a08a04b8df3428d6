"""Real traces: each diagnosis stays as right as verdicts/RESULTS.md says, and labels hold what is in the raw files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_diagnoses import loader_finding, precision_finding, sick
from verdicts import independent
from verdicts.verdict_table import RESULTS, labels, outcomes, row

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.rules.rule_set.loading import load_rules

LABELS = labels()
# From worst to best.
ORDER = ("wrong", "missed", "partly", "right")
# Named by labels as the truth, and not written yet.
PLANNED = {"attention-slow-backend", "comm-on-compute-stream", "unbucketed-gradients", "uvm-migration"}


@pytest.mark.parametrize("name", LABELS)
def test_the_verdict_is_no_worse_than_the_table_says(
    name: str, corpus: Path, diagnosis_of: Callable[[Path], Diagnosis]
) -> None:
    found = row(LABELS[name], diagnosis_of(corpus / name))
    expected = outcomes(RESULTS.read_text(encoding="utf-8"))[name]
    assert ORDER.index(found.outcome) >= ORDER.index(expected), found


@pytest.mark.parametrize("name", LABELS)
def test_facts_are_what_the_raw_file_holds(name: str, corpus: Path) -> None:
    trace = independent.read(corpus / name)
    for fact in LABELS[name]["facts"]:
        assert independent.measure(trace, fact["what"], fact.get("of", "")) == pytest.approx(fact["value"], abs=1e-4)


@pytest.mark.parametrize("name", [name for name, label in LABELS.items() if "pairs" in label])
def test_measured_savings_are_what_the_raw_files_before_and_after_hold(name: str, corpus: Path) -> None:
    for pair in LABELS[name]["pairs"]:
        before = independent.measure(independent.read(corpus / name / pair["file"]), "inner_step_ms", pair["step"])
        after = independent.measure(independent.read(corpus / pair["with"]), "inner_step_ms", pair["step"])
        assert 1 - after / before == pytest.approx(pair["measured_saving_share"], abs=1e-4)


def test_every_trace_of_the_corpus_has_a_label(corpus: Path) -> None:
    traces = (path for kind in ("kineto", "more", "nsys") for path in (corpus / kind).iterdir())
    assert {str(path.relative_to(corpus)) for path in traces if path.name != "README.md"} == set(LABELS)


def test_labels_name_rules_that_exist_or_are_planned() -> None:
    known = {rule.id for rule in load_rules(tests=False)} | PLANNED
    for name, label in LABELS.items():
        banned = [item["rule"] for item in label["never"] if "rule" in item]
        named = [rule for part in ("leads", "required", "welcome") for rule in label.get(part, ())]
        assert {*banned, *named} <= known, name
        assert not {*banned} & {*named}, name
        assert label.get("leads") or label.get("state"), name


def test_the_table_has_a_row_for_every_label() -> None:
    assert set(outcomes(RESULTS.read_text(encoding="utf-8"))) == set(LABELS)


def outcome(**label: Any) -> str:
    """Return what becomes of a diagnosis that tells of the data loader first, and of idle tensor cores."""
    diagnosis = dataclasses.replace(sick(), findings=(loader_finding(), precision_finding()))
    return row({"trace": "hand-made", "never": [], "facts": [], **label}, diagnosis).outcome


def test_a_label_tells_right_from_partly_wrong_and_missed() -> None:
    both = {"leads": ["dataloader-bound"], "required": ["tensor-cores-unused"]}
    assert outcome(**both) == "right"
    assert outcome(leads=["tensor-cores-unused"], welcome=["dataloader-bound"]) == "partly"
    assert outcome(leads=["dataloader-bound"], required=["launch-bound"]) == "partly"
    assert outcome(leads=["launch-bound"]) == "wrong"
    assert outcome(**both, never=[{"phrase": "bfloat16", "why": "the device has none"}]) == "wrong"
    assert outcome(leads=["dataloader-bound"], never=[{"rule": "tensor-cores-unused", "why": "not used"}]) == "wrong"


def test_a_fact_or_a_bound_that_is_off_makes_a_right_verdict_partly_right() -> None:
    windows = {"what": "step_ms", "told": "window_ms", "tolerance": 1}
    pair = {"file": "rank0.json.gz", "rule": "dataloader-bound"}
    window_ms = 6 * 177.6
    assert outcome(leads=["dataloader-bound"], facts=[{**windows, "value": window_ms}]) == "right"
    assert outcome(leads=["dataloader-bound"], facts=[{**windows, "value": 2 * window_ms}]) == "partly"
    assert outcome(leads=["dataloader-bound"], pairs=[{**pair, "measured_saving_share": 0.3}]) == "right"
    assert outcome(leads=["dataloader-bound"], pairs=[{**pair, "measured_saving_share": 0.4}]) == "partly"


def test_silence_about_the_main_thing_is_missed() -> None:
    silent = dataclasses.replace(sick(), findings=())
    label = {"trace": "hand-made", "leads": ["launch-bound"], "never": [], "facts": []}
    assert row(label, silent).outcome == "missed"
