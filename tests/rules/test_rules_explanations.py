"""An explanation is asked once its finding is there, claims nothing, and is told under that finding."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixture_runs import open_fixture

from traceanalyzer.diagnosis import AttachedExplanation, Diagnosis, Finding
from traceanalyzer.report import formats
from traceanalyzer.report.json import document
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.diagnosis.explaining import attach_explanations
from traceanalyzer.rules.diagnosis.firing import lower_confidence
from traceanalyzer.rules.evaluation.interventions import Intervention
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.evaluation.scopes import Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import ABSTAINED, AUTO, FIRED, Rule, RuleFilesError
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim.rule_lint import lint

LOADER = {"steps": 6, "kernels": 60, "kernel_us": 60, "loader_us": 9000}
RULES = load_rules()
WHY = """
id: few-workers
title: The loader has no workers
kind: explanation
attaches_to: [dataloader-bound]
requires: [steps]
params:
  min_count: {default: 1, why: one is enough}
select: |
  SELECT trace, device, count(*) AS batch_count
  FROM traces JOIN windows USING (trace_id)
  JOIN canonical.host_slices USING (trace_id)
  WHERE host_slices.name LIKE '%SingleProcess%'
  GROUP BY trace, device
when: batch_count >= $min_count
message: "{batch_count} batches were made in the training process."
why: Nothing else runs while a batch is made.
fixes:
  - {text: Use workers., code: "loader = DataLoader(dataset, num_workers=8)"}
references: [https://docs.pytorch.org/docs/stable/data.html]
tests:
  - name: fires on one
    sim: {steps: 5, kernels: 20}
    expect: {state: fired, batch_count: 5}
  - name: is clear when one is enough
    sim: {steps: 5, kernels: 20}
    params: {min_count: 6}
    expect: {state: clear}
"""


@pytest.fixture
def why(tmp_path: Path) -> Rule:
    """A rule that explains a slow loader."""
    (tmp_path / "few-workers.yaml").write_text(WHY)
    return next(rule for rule in load_rules([tmp_path]) if rule.id == "few-workers")


def diagnosed(sim: dict[str, Any], *rules: Rule) -> Diagnosis:
    asking = [*RULES, *rules]
    return diagnose(open_fixture(sim, {}, readers(asking)), asking)


def of(diagnosis: Diagnosis, rule: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.rule == rule)


def explanation_in(finding: Finding) -> AttachedExplanation:
    return next(item for item in finding.explanations if item.rule == "few-workers")


@pytest.mark.check
def test_an_explanation_is_told_under_its_finding_and_is_none_itself(why: Rule) -> None:
    diagnosis = diagnosed(LOADER, why)
    told = explanation_in(of(diagnosis, "dataloader-bound"))
    assert (told.rule, told.confidence, told.device) == ("few-workers", "high", 0)
    assert told.message == "6 batches were made in the training process."
    assert "few-workers" not in {finding.rule for finding in diagnosis.findings}
    assert {o.state for o in diagnosis.outcomes if o.rule == "few-workers"} == {"fired"}


@pytest.mark.check
def test_it_changes_nothing_but_its_finding(why: Rule) -> None:
    plain, told = diagnosed(LOADER), diagnosed(LOADER, why)
    without = [replace(f, explanations=()) for f in told.findings]
    assert without == [replace(f, explanations=()) for f in plain.findings]
    assert told.not_explained == plain.not_explained


@pytest.mark.check
def test_it_is_not_asked_where_there_is_nothing_to_explain(why: Rule) -> None:
    broken = replace(why, select="SELECT error('asked') AS trace, 0 AS device, 1 AS batch_count")
    (outcome,) = (o for o in diagnosed({"steps": 6, "kernels": 60}, broken).outcomes if o.rule == why.id)
    assert (outcome.state, outcome.reason) == ("clear", "nothing-to-explain")
    assert outcome.detail == "dataloader-bound was not found"


@pytest.mark.check
def test_what_explains_a_rule_explains_what_refines_it(why: Rule) -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    finer = replace(loader, id="our-loader", refines=("dataloader-bound",))
    told = explanation_in(of(diagnosed(LOADER, why, finer), "our-loader"))
    assert told.rule == "few-workers"


@pytest.mark.parametrize(("severity", "explained"), [(AUTO, True), ("low", False), ("high", False)])
def test_what_explains_a_rule_explains_no_finding_that_refines_it_and_promises_no_saving(
    why: Rule, severity: str, explained: bool
) -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    finer = replace(loader, id="our-loader", refines=("dataloader-bound",), severity=severity, removes=())
    fired = [Verdict(finer, Scope(), FIRED)]
    found = attach_explanations([loader, finer, why], [], fired, lambda rule: [Verdict(rule, Scope(), FIRED)])
    assert bool(found.under) == explained


@pytest.mark.check
def test_the_findings_own_fix_is_told_before_an_explanation_and_its_fix(why: Rule) -> None:
    diagnosis = diagnosed(LOADER, why)
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    text = " ".join(stream.getvalue().split())
    own = text.index(of(diagnosis, "dataloader-bound").fixes[0].text)
    because = text.index("because 6 batches were made in the training process.")
    assert own < because < text.index("fix Use workers.")
    (told,) = (item for item in document(diagnosis)["findings"] if item["rule"] == "dataloader-bound")
    assert list(told).index("fixes") < list(told).index("explanations")


@pytest.mark.check
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("attaches_to: [dataloader-bound]\n", "", "an explanation names the findings that it may explain"),
        ("[dataloader-bound]", "[dataloader-bond]", "did you mean 'dataloader-bound'?"),
        ("kind: explanation", "kind: finding", "only an explanation is attached to findings"),
        ("requires:", "claims: host.dataloader\nrequires:", "an explanation has no 'claims'"),
        ("requires:", "severity: high\nrequires:", "an explanation has no 'severity'"),
    ],
)
def test_lint_tells_what_an_explanation_cannot_be(tmp_path: Path, old: str, new: str, what: str) -> None:
    (tmp_path / "few-workers.yaml").write_text(WHY.replace(old, new, 1))
    with pytest.raises(RuleFilesError) as caught:
        load_rules([tmp_path])
    assert what in str(caught.value)
    assert any(what in str(mistake) for mistake in lint([tmp_path]))


def test_an_explanation_that_names_an_operation_is_told_under_what_is_about_it(why: Rule) -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    found = [
        Verdict(loader, Scope(trace, 0), "fired", interventions={(0, 0): Intervention(savings={op_id: 5})})
        for trace, op_id in (("a", 7), ("b", 8))
    ]
    everywhere, of_one = (Verdict(why, Scope(), "fired", row=row) for row in ({}, {"op_id": 8}))
    assert len(attach_explanations([why], found, found, lambda rule: [everywhere]).under) == 2
    assert list(attach_explanations([why], found, found, lambda rule: [of_one]).under) == [(loader.id, Scope("b", 0))]


@pytest.mark.check
def test_what_explains_two_findings_is_printed_once(why: Rule) -> None:
    diagnosis = diagnosed(
        {**LOADER, "item_per_step": 1}, replace(why, attaches_to=("dataloader-bound", "sync-in-step"))
    )
    assert all(explanation_in(of(diagnosis, rule)) for rule in ("dataloader-bound", "sync-in-step"))
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    assert stream.getvalue().count("batches were made in the training process") == 1


def test_where_nobody_could_look_the_reason_is_the_same_in_any_order_of_traces(why: Rule) -> None:
    loader = next(rule for rule in RULES if rule.id == "dataloader-bound")
    verdicts = [Verdict(loader, Scope(trace, 0), ABSTAINED, "no-steps") for trace in ("rank1", "rank0")]
    first, second = (attach_explanations([why], told, [], lambda rule: []) for told in (verdicts, verdicts[::-1]))
    assert first == second
    assert [(verdict.state, verdict.scope) for verdict in first.verdicts] == [(ABSTAINED, Scope())]


def test_a_finding_is_as_sure_as_its_own_trace_allows_and_one_about_the_run_as_all_traces_do() -> None:
    by_id = {rule.id: rule for rule in RULES}
    of_device, warning, why = by_id["dataloader-bound"], by_id["tq-too-few-steps"], by_id["interpreter-lock"]
    of_run = next(rule for rule in RULES if rule.scope == "run" and rule.kind == "finding")
    quality = [
        Verdict(warning, Scope("rank0"), "fired", severity="warning"),
        Verdict(warning, Scope("rank1"), "clear", severity="blocker"),
        Verdict(warning, Scope("rank2"), "fired", severity="blocker"),
    ]
    verdicts = [
        *(Verdict(of_device, Scope(f"rank{rank}", 0), "fired") for rank in range(3)),
        Verdict(of_run, Scope(), "fired"),
        Verdict(why, Scope("rank2", 0), "fired"),
    ]
    lowered = lower_confidence(verdicts, quality)
    assert [verdict.confidence.level for verdict in lowered] == ["medium", "high", "low", "low", "high"]
